from __future__ import annotations

import pytest

from dra_api.semver import Semver, SemverError, is_valid


@pytest.mark.parametrize(
    "text", ["1.2.3", "0.0.0", "1.2.3-alpha", "1.2.3-alpha.1+b.007", "1.2.3+0a", "1.0.0--"]
)
def test_valid_versions_are_read_and_printed_unchanged(text: str) -> None:
    assert str(Semver.parse(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "v1.2.3",
        "1.2",
        "1",
        "01.2.3",
        "1.2.03",
        "1.2.3-01",
        "1.2.3-",
        "1.2.3+",
        "1.2.3.4",
        "1.2.3\n",
        " 1.2.3",
        "1\u0663.0.0",
    ],
)
def test_everything_else_is_refused(text: str) -> None:
    assert not is_valid(text)
    with pytest.raises(SemverError):
        Semver.parse(text)


def test_precedence_of_the_specification() -> None:
    # semver.org, section 11
    order = [
        "1.0.0-alpha",
        "1.0.0-alpha.1",
        "1.0.0-alpha.beta",
        "1.0.0-beta",
        "1.0.0-beta.2",
        "1.0.0-beta.11",
    ]
    order += ["1.0.0-rc.1", "1.0.0", "1.0.1", "1.1.0", "2.0.0"]
    versions = [Semver.parse(text) for text in order]
    shuffled = versions[::2] + versions[1::2]
    assert sorted(shuffled) == versions
    assert len(set(versions)) == len(order)


def test_build_metadata_do_not_count() -> None:
    assert Semver.parse("1.2.3+a") == Semver.parse("1.2.3+b")
    assert len({Semver.parse("1.2.3+a"), Semver.parse("1.2.3")}) == 1


def test_numbers_beyond_64_bits_pass_the_server_but_not_cel() -> None:
    assert is_valid("18446744073709551616.0.0")
    with pytest.raises(SemverError, match="number above"):
        Semver.parse("18446744073709551616.0.0")
    assert Semver.parse("18446744073709551615.0.0").major == 2**64 - 1


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("v1.2.3", "1.2.3"),
        ("1", "1.0.0"),
        ("v01.002", "1.2.0"),
        ("1.2.03-rc.1", "1.2.3-rc.1"),
        ("00.0.0", "0.0.0"),
    ],
)
def test_relaxed_reading(text: str, read: str) -> None:
    assert str(Semver.parse_relaxed(text)) == read


def test_relaxed_reading_refuses_short_versions_with_a_pre_release() -> None:
    with pytest.raises(SemverError, match="short version"):
        Semver.parse_relaxed("1.2-rc")
