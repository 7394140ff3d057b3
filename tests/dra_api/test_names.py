from __future__ import annotations

import pytest

from dra_api.errors import FieldError
from dra_api.validation import names


@pytest.mark.parametrize("name", ["a", "a-b", "0", "a" * 63])
def test_dns_labels(name: str) -> None:
    assert names.dns_label_problems(name) == []


@pytest.mark.parametrize("name", ["", "A", "-a", "a-", "a_b", "é", "a\n"])
def test_no_dns_labels(name: str) -> None:
    (problem,) = names.dns_label_problems(name)
    assert problem == (
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end "
        "with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
        "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
    )


def test_a_subdomain_is_told_that_it_has_dots() -> None:
    assert names.dns_label_problems("a.b") == ["must not contain dots"]


def test_lengths_are_counted_in_bytes_and_worded_by_the_kind_of_rule() -> None:
    assert names.dns_label_problems("a" * 64) == ["must be no more than 63 characters"]
    assert names.dns_label_problems("a" * 64, names.BYTES) == ["must be no more than 63 bytes"]
    assert names.dns_subdomain_problems("a" * 254) == ["must be no more than 253 characters"]
    # 32 letters of two bytes each are 64 bytes.
    assert "must be no more than 63 bytes" in names.label_value_problems("é" * 32)


@pytest.mark.parametrize(
    ("key", "starts"),
    [
        ("a", []),
        ("example.com/A_b.c", []),
        ("", ["name part must be non-empty", "name part must consist of"]),
        ("/a", ["prefix part must be non-empty"]),
        ("A/b", ["prefix part a lowercase RFC 1123 subdomain"]),
        ("a/", ["name part must be non-empty", "name part must consist of"]),
        ("a/b/c", ["a valid label key must consist of"]),
        ("a" * 64, ["name part must be no more than 63 bytes"]),
    ],
)
def test_label_keys(key: str, starts: list[str]) -> None:
    problems = names.label_key_problems(key)
    assert len(problems) == len(starts)
    assert all(problem.startswith(start) for problem, start in zip(problems, starts, strict=True))


@pytest.mark.parametrize("key", [".", "..", "..a", "a b", ""])
def test_no_keys_of_a_config_map(key: str) -> None:
    assert names.config_key_problems(key)


def test_keys_of_a_config_map() -> None:
    assert [names.config_key_problems(key) for key in ("a", ".a", "A_b-c.d")] == [[], [], []]


def test_driver_names_may_have_upper_case_and_63_bytes() -> None:
    assert names.driver_name_errors("D.Example.com", "p") == []
    assert names.driver_name_errors("d" * 63, "p") == []
    assert names.driver_name_errors("d" * 64, "p") == [
        FieldError("TooLong", "p", "may not be more than 63 bytes")
    ]
    assert names.driver_name_errors("", "p") == [FieldError("Required", "p")]
    (error,) = names.driver_name_errors("D_", "p")
    assert (error.type, error.value) == ("Invalid", "D_")


def test_a_prefix_may_end_in_a_dash() -> None:
    assert names.is_subdomain("gpu-", True) == []
    assert names.is_subdomain("gpu-", False) != []


def test_names_in_urls() -> None:
    assert names.path_segment_problems("system:node") == []
    assert names.path_segment_problems("..") == ["may not be '..'"]
    assert names.path_segment_problems("a/b%c") == ["may not contain '/'", "may not contain '%'"]


@pytest.mark.parametrize("value", ["", "abc", "11111111-1111-1111-1111-11111111111A", "1" * 36])
def test_no_uuids(value: str) -> None:
    assert names.uuid_problems(value) == ["must be a lowercase UUID in 8-4-4-4-12 format"]
