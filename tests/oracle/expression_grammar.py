"""The grammar of random expressions: what can stand for each type, with `{type}` for holes.

`{v:type}` names a variable of that type, which may stand for it in the holes behind; `{name}` and `{method}` are one of
NAMES and METHODS. Nothing iterates over a map with several keys unless the order cannot matter: upstream visits them in
a random one.
"""

from __future__ import annotations

DOMAIN = "a.example.com"

_A = f"device.attributes['{DOMAIN}']"
_C = f"device.capacity['{DOMAIN}']"

PRODUCTIONS: dict[str, tuple[str, ...]] = {
    "bool": (
        *("true", "false", "device.allowMultipleAllocations", f"{_A}.ok", f"{_A}.?ok.orValue({{bool}})"),
        *("{bool} && {bool}", "{bool} || {bool}", "!{bool}", "{bool} ? {bool} : {bool}", "({bool})"),
        *("{int} < {int}", "{int} >= {int}", "{int} == {int}", "{int} != {double}", "{double} <= {double}"),
        *("{string} == {string}", "{string} < {string}", "{string} in {strings}", "{int} in {ints}"),
        *(
            "{dyn} == {int}",
            "{dyn} == {string}",
            "{dyn} != {dyn}",
            "{ints} == {ints}",
            "{strings} != {strings}",
        ),
        *("{string}.startsWith({string})", "{string}.endsWith({string})", "{string}.contains({string})"),
        *("{string}.matches({pattern})", "matches({string}, {pattern})"),
        *(
            "{quantity}.isGreaterThan({quantity})",
            "{quantity}.isLessThan({quantity})",
            "{quantity} == {quantity}",
        ),
        *(
            "isQuantity({string})",
            "{quantity}.isInteger()",
            "isSemver({string})",
            "isSemver({string}, {bool})",
        ),
        *("{semver}.isGreaterThan({semver})", "{semver}.isLessThan({semver})", "{semver} == {semver}"),
        *(
            f"has({_A}.{{name}})",
            f"has({_C}.{{name}})",
            f"'{{name}}' in {_A}",
            "{string} in device.attributes",
        ),
        *("{string} in device.capacity", "device.attributes.all(d, d != '')", "{ints}.isSorted()"),
        *("device.attributes.exists_one(d, d == {string})", "{strings}.isSorted()", "'{name}' in {map}"),
        *(
            "{ints}.exists({v:int}, {bool})",
            "{ints}.all({v:int}, {bool})",
            "{ints}.exists_one({v:int}, {bool})",
        ),
        *("{strings}.exists({v:string}, {bool})", "{strings}.all({v:string}, {bool})"),
        *("{ints}.exists({v:int}, {w:int}, {bool})", "{ints}.all({v:int}, {w:int}, {bool})"),
        *("{links}.exists({v:string}, {bool})", "{links}.all({v:dyn}, {bool})", "{string} in {links}"),
        *(
            "sets.contains({ints}, {ints})",
            "sets.intersects({strings}, {strings})",
            "sets.equivalent({ints}, {ints})",
        ),
        *(
            "{dyn}.includes({string})",
            "{dyn}.includes({int})",
            "{links}.includes({string})",
            "{ints}.includes({int})",
        ),
        *("cel.bind({v:int}, {bool})", "cel.bind({v:string}, {bool})", "{optional}.hasValue()"),
        *("{optional}.orValue({int}) == {int}", "{duration} < {duration}", "{timestamp} > {timestamp}"),
        *("isURL({address})", "isIP({address})", "isCIDR({address})", "ip({address}).isLoopback()"),
        *(
            "ip({address}).family() == {int}",
            "cidr({address}).containsIP({address})",
            "ip.isCanonical({address})",
        ),
        *("type({int}) == int", "type({dyn}) == type({string})", "{bytes} == {bytes}", "{uint} < {uint}"),
        *("{map} == {map}", "format.dns1123Label().validate({string}).hasValue()", "isURL({string})"),
        *("dyn({dyn}.{method}) == {int}", "{links}.{method} == {dyn}", "{string}.{method} == {dyn}"),
        *("dyn({ints}.{method}) == {dyn}", "{strings}.{method} == {dyn}", "{map}.{method} == {dyn}"),
        *("{optional}.{method} == {dyn}", "{quantity}.{method} == {dyn}", "{semver}.{method} == {dyn}"),
        *("{ints}.map({v:int}, {bool})[0]", "{int} == {uint}", "{dyn} < {int}", "{dyn} > {string}"),
    ),
    "int": (
        *("0", "1", "2", "-1", "7", "100", "9223372036854775807", "0x1F", f"{_A}.numa", "size({string})"),
        *("{int} + {int}", "{int} - {int}", "{int} * {int}", "{int} / {int}", "{int} % {int}", "-({int})"),
        *(
            "{ints}.size()",
            "{strings}.size()",
            "{ints}[{int}]",
            "{ints}.sum()",
            "{ints}.min()",
            "{ints}.max()",
        ),
        *(
            "{ints}.indexOf({int})",
            "{ints}.lastIndexOf({int})",
            "{string}.indexOf({string})",
            "{string}.size()",
        ),
        *("{string}.lastIndexOf({string})", "{semver}.major()", "{semver}.minor()", "{semver}.patch()"),
        *("{semver}.compareTo({semver})", "{quantity}.compareTo({quantity})", "{quantity}.sign()"),
        *(
            "{quantity}.asInteger()",
            f"{_A}.?numa.orValue({{int}})",
            "{optional}.value()",
            "{optional}.orValue({int})",
        ),
        *("{bool} ? {int} : {int}", "int({string})", "int({double})", "int({uint})", "{map}.size()"),
        *("cel.bind({v:int}, {int})", "{map}['{name}']", "{map}.{name}", "{map}[?'{name}'].orValue({int})"),
        *("device.attributes.size()", f"{_A}.size()", "{duration}.getSeconds()", "{timestamp}.getFullYear()"),
        *("cidr({address}).prefixLength()", "{links}.size()", "{bytes}.size()", "{ints}.first().value()"),
    ),
    "uint": ("0u", "1u", "42u", "uint({int})", "{uint} + {uint}", "{uint} * {uint}", "{uint} - {uint}"),
    "double": (
        *("0.5", "1.0", "-2.25", "1e3", "double({int})", "{double} + {double}", "{double} / {double}"),
        *("{quantity}.asApproximateFloat()", "double({string})", "{double} * {double}", "-({double})"),
    ),
    "string": (
        *("''", "'x'", "'y'", "'a-b-c'", "'Hello'", "'ä€'", f"'{DOMAIN}'", "device.driver", f"{_A}.model"),
        *("{string} + {string}", "{string}.lowerAscii()", "{string}.upperAscii()", "{string}.trim()"),
        *(
            "{string}.substring({int})",
            "{string}.substring({int}, {int})",
            "{string}.replace({string}, {string})",
        ),
        *(
            "{string}.replace({string}, {string}, {int})",
            "{string}.charAt({int})",
            "{strings}.join({string})",
        ),
        *("{strings}.join()", "{strings}[{int}]", "string({int})", "string({bool})", "string({double})"),
        *("{string}.find({pattern})", f"{_A}.?model.orValue({{string}})", "{bool} ? {string} : {string}"),
        *("'%s-%d'.format([{string}, {int}])", "'%.2f|%b|%x'.format([{double}, {int}, {int}])"),
        *("'%s'.format([{ints}])", "'%s %s'.format([{map}, {bool}])", "url({address}).getHost()"),
        *(
            "url({address}).getScheme()",
            "url({address}).getEscapedPath()",
            "string(ip({address}))",
            "string({bytes})",
        ),
        *(
            "cel.bind({v:string}, {string})",
            "string({duration})",
            "string({timestamp})",
            "{string}.reverse()",
        ),
        *("strings.quote({string})", "string({uint})", "string({dyn})"),
    ),
    "pattern": (*("'x+'", "'^a.*c$'", "'[0-9]+'", "'(a|b)-'", "'('", "'\\\\d{2,3}'", "'l[o]+'"), "{string}"),
    "address": (
        *("'127.0.0.1'", "'10.0.0.0/8'", "'::1'", "'2001:db8::/32'", "'https://a.example.com:80/p?q=1#f'"),
        *("'not an address'", "'1.2.3'", "'10.1.2.3'", "'/path'", "{string}"),
    ),
    "ints": (
        *("[]", "[1, 2, 3]", "[3, 1, 2, 1]", "[{int}]", "[{int}, {int}]", "{ints} + {ints}", "[?{optional}]"),
        *(
            "{ints}.filter({v:int}, {bool})",
            "{ints}.map({v:int}, {int})",
            "{ints}.map({v:int}, {bool}, {int})",
        ),
        *("{ints}.slice({int}, {int})", "{ints}.distinct()", "{ints}.sort()", "{ints}.reverse()"),
        *(
            "lists.range(3)",
            "[{ints}, {ints}].flatten()",
            "{ints}.sortBy({v:int}, {int})",
            "{bool} ? {ints} : {ints}",
        ),
        *("{ints}.transformList({v:int}, {w:int}, {int})", "{strings}.map({v:string}, {int})"),
    ),
    "strings": (
        *(
            "['x', 'y']",
            "[{string}]",
            "[{string}, {string}]",
            "{string}.split('-')",
            "{string}.split({string}, {int})",
        ),
        *(
            "{strings} + {strings}",
            "{strings}.filter({v:string}, {bool})",
            "{strings}.map({v:string}, {string})",
        ),
        *(
            "{string}.findAll({pattern})",
            "{string}.findAll({pattern}, {int})",
            "{ints}.map({v:int}, {string})",
        ),
        *("{strings}.sort()", "{strings}.distinct()"),
    ),
    "map": (
        *("{{}}", "{{'{name}': {int}}}", "{{'x': 1}}", "{map}.transformMap({v:string}, {w:int}, {int})"),
        *("{{?'{name}': {optional}}}",),
    ),
    "quantity": (
        *("quantity('1Gi')", "quantity('500m')", "quantity('2')", "quantity('-3k')", "quantity({string})"),
        *(f"{_C}.mem", f"{_C}.{{name}}", f"{_C}.?mem.orValue({{quantity}})", "{quantity}.add({quantity})"),
        *("{quantity}.sub({quantity})", "{quantity}.add({int})", "{quantity}.sub({int})"),
    ),
    "semver": (
        *("semver('1.0.0')", "semver('1.2.3-rc.1')", "semver('v1.2', true)", "semver({string})", f"{_A}.ver"),
        *(f"{_A}.?ver.orValue({{semver}})", "semver({string}, {bool})"),
    ),
    "optional": (
        *("optional.of({int})", "optional.none()", "{map}[?'{name}']", "{ints}[?{int}]", f"{_A}.?numa"),
        *("{optional}.or({optional})", "{optional}.optMap({v:int}, {int})", "optional.ofNonZeroValue({int})"),
        *("{optional}.optFlatMap({v:int}, {optional})", "{ints}.first()", "{ints}.last()", "{map}.?{name}"),
    ),
    "dyn": (
        *("dyn({int})", "dyn({string})", f"{_A}.{{name}}", f"{_A}['{{name}}']", f"{_A}.model", f"{_A}.links"),
        *("{bool} ? dyn({int}) : dyn({string})", "[dyn({int}), {string}][{int}]", "dyn({bool})"),
        *("device.attributes[{string}].{name}", f"{_A}.?{{name}}.orValue({{dyn}})"),
    ),
    "mixed": (
        *("[dyn({semver}), {semver}]", "[{semver}]", "[{dyn}, {dyn}]", "[{links}, {links}]", "[dyn({dyn})]"),
        *(
            "[dyn({optional})]",
            "[{quantity}]",
            "[{map}]",
            "[{bool}, {bool}]",
            "[dyn({ints}), {dyn}]",
            "dyn({map})",
        ),
        *(
            "[{dyn}, {string}]",
            "dyn({double})",
            "dyn({quantity})",
            "dyn(null)",
            "dyn(type({dyn}))",
            "dyn({optional})",
        ),
        *(
            "[dyn({dyn}), {int}]",
            "[{dyn}, dyn({bytes})]",
            "dyn({duration})",
            "dyn({timestamp})",
            "dyn({uint})",
        ),
        *(
            "dyn(device)",
            "dyn(device.attributes)",
            f"dyn({_A})",
            f"dyn({_C})",
            "[dyn(null), {dyn}]",
            "dyn({bytes})",
        ),
        *("dyn(ip({address}))", "dyn(cidr({address}))", "dyn(url({address}))", "dyn(format.dns1123Label())"),
        *(
            "[dyn({int}), {dyn}, {uint}]",
            f"[dyn({_A}), {{dyn}}]",
            "{links}.map({v:dyn}, {dyn})",
            "optional.of({dyn})",
        ),
    ),
    "links": (f"{_A}.links", f"{_A}.?links.orValue([])", "dyn({strings})", f"{_A}.{{name}}"),
    "duration": ("duration('90s')", "duration('1h30m')", "duration({string})", "{duration} + {duration}"),
    "timestamp": (
        "timestamp('2024-02-29T12:00:00Z')",
        "timestamp(0)",
        "{timestamp} + {duration}",
        "timestamp({string})",
    ),
    "bytes": ("b'x'", "bytes({string})", "{bytes} + {bytes}"),
}
NAMES = ("model", "numa", "ok", "ver", "links", "mem", "cores", "absent", "x")
METHODS = (
    *(
        "distinct()",
        "sort()",
        "reverse()",
        "flatten()",
        "flatten({int})",
        "slice({int}, {int})",
        "first()",
        "last()",
    ),
    *("sum()", "min()", "max()", "indexOf({dyn})", "lastIndexOf({dyn})", "isSorted()", "size()", "join()"),
    *(
        "join({dyn})",
        "includes({dyn})",
        "lowerAscii()",
        "trim()",
        "split({dyn})",
        "charAt({dyn})",
        "substring({dyn})",
    ),
    *(
        "matches({dyn})",
        "find({dyn})",
        "findAll({dyn})",
        "replace({dyn}, {dyn})",
        "format([{dyn}])",
        "major()",
    ),
    *(
        "compareTo({dyn})",
        "isGreaterThan({dyn})",
        "add({dyn})",
        "sign()",
        "asInteger()",
        "isInteger()",
        "orValue({dyn})",
    ),
    *(
        "hasValue()",
        "value()",
        "?a",
        "getSeconds()",
        "contains({dyn})",
        "startsWith({dyn})",
        "family()",
        "getHost()",
    ),
)
"""What is called on anything, to see how it is refused."""
