"""Scripts of containers. Expected outputs were seen with dash 0.5.12 and bash 5.2."""

from __future__ import annotations

import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from container_kit import bash, run, sh
from hypothesis import given
from hypothesis import strategies as st

from clusters.containers.shell.grammar import parse
from clusters.containers.shell.words import ShellSyntaxError, Word, expand, split
from clusters.containers.view import ContainerView, VisibleDevice, VisibleMount

DASH, BASH = shutil.which("dash"), shutil.which("bash")
GPUS = {
    "GPU_1_UUID": "GPU-bb", "GPU_1_PCI_BUS_ID": "0000:65:01.0", "GPU_1_PRODUCT_NAME": "NVIDIA A30",
    "GPU_0_UUID": "GPU-aa", "GPU_0_PCI_BUS_ID": "0000:17:00.0", "GPU_0_PRODUCT_NAME": "NVIDIA A30",
}  # fmt: skip


def test_export_prints_declarations_as_bash_does() -> None:
    ended = bash("export", env={"Z": 'say "hi" $HOME `x` \\', "A": "line\nend", "PLAIN": "1"})
    assert ended.out == (
        "declare -x A=$'line\\nend'\n"
        "declare -x OLDPWD\n"
        'declare -x PLAIN="1"\n'
        'declare -x PWD="/"\n'
        'declare -x SHLVL="1"\n'
        'declare -x Z="say \\"hi\\" \\$HOME \\`x\\` \\\\"\n'
    )


def test_export_prints_as_dash_does_under_sh() -> None:
    assert (
        sh("export", env={"A": "x'y", "B": ""}).out == "export A='x'\"'\"'y'\nexport B=''\nexport PWD='/'\n"
    )


def test_a_trap_ends_a_waiting_shell_at_once_with_zero() -> None:
    ended = bash("export; trap 'exit 0' TERM; sleep 9999 & wait", env={"GPU": "1"}, term=True)
    assert (ended.code, ended.at) == (0, 0)
    assert 'declare -x GPU="1"\n' in ended.out


def test_a_trap_waits_for_the_command_in_the_foreground() -> None:
    # The signal comes at 0; sleep ends at 30, and the trap ends the shell before the echo.
    ended = sh("trap 'exit 4' TERM; sleep 30; echo late", term=True, advance=[20, 10])
    assert (ended.code, ended.out, ended.at) == (4, "", 30)


def test_a_trap_that_does_not_exit_lets_the_script_go_on() -> None:
    # 143 = 128 + 15 is the status of the interrupted wait.
    assert sh("trap 'echo bye' TERM; sleep 99 & wait; echo $?", term=True).out == "bye\n143\n"


@pytest.mark.parametrize(
    "script",
    ["sleep 9999", "sleep 9999 & wait", "trap '' TERM; sleep 9999 & wait", "while true; do sleep 9; done",
     "trap 'exit 0' TERM; trap - TERM; sleep 9999 & wait"],
)  # fmt: skip
def test_process_one_without_a_handler_ignores_the_stop_signal(script: str) -> None:
    assert sh(script, term=True, advance=[5, 5]).code == -1


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("exit 3", 3),
        ("true", 0),
        ("false", 1),
        ("exit 300", 44),
        ("false; exit", 1),
        ("(exit 6)", 6),
        ("", 0),
    ],
)
def test_the_status_of_a_script_is_that_of_its_last_command(script: str, code: int) -> None:
    # 300 modulo 256 = 44.
    assert sh(script).code == code


@pytest.mark.parametrize(
    ("script", "out"),
    [
        ("false && echo a || echo b", "b\n"),
        ("true && echo a || echo b", "a\n"),
        ("true || echo a && echo b", "b\n"),
        ("echo a; echo b\necho c # d", "a\nb\nc\n"),
        ("! true; echo $?", "1\n"),
        ("if false; then echo a; elif true; then echo b; else echo c; fi", "b\n"),
        ("if false; then echo a; fi; echo $?", "0\n"),
        ("for i in a 'b c' $L; do echo \"<$i>\"; done", "<a>\n<b c>\n<x>\n<y>\n"),
        ("for i in 1 2 3; do [ $i = 2 ] && continue; echo $i; done", "1\n3\n"),
        ("for i in 1 2; do for j in 1 2; do break 2; done; echo no; done; echo end", "end\n"),
        ("n=; until [ ${#n} -ge 2 ]; do n=${n}x; echo $n; done", "x\nxx\n"),
        ("{ echo a; echo b; } >/dev/null; echo c", "c\n"),
        ("V=1; (V=2; echo $V); echo $V", "2\n1\n"),
        ("V=1 printenv V; echo \"[$V]\"", "1\n[]\n"),
        ("export V=5; printenv V", "5\n"),
        ("V=5; printenv V; echo $?", "1\n"),
        ("set -- a b; echo $1 $# \"$*\"; shift; echo $1", "a 2 a b\nb\n"),
        ("eval 'echo \"$L\"'", "x  y\n"),
        ("printf '%s=%d;' a 1 b 2", "a=1;b=2;"),
        ("echo ${N:-none} ${L:+set} ${N-d\" \"e}", "none set d e\n"),
        ("echo '$L' \\$L \"\\$L\" \"$L\" $L", "$L $L $L x  y x y\n"),
        ("sh -c 'echo $0 $1' zero one", "zero one\n"),
        ("set -e; false || true; echo on; false; echo off", "on\n"),
        ("exec echo a; echo b", "a\n"),
        ("trap 'echo end' EXIT; echo on", "on\nend\n"),
        ("sleep 60 & kill $!; wait $!; echo $?", "143\n"),
        ("echo a >/tmp/f; echo b >>/tmp/f; cat /tmp/f; cat </tmp/f", "a\nb\na\nb\n"),
        ("cd /tmp; pwd; echo a >f; [ -f /tmp/f ] && echo yes", "/tmp\nyes\n"),
        ("echo err 2>/dev/null >&2; echo out", "out\n"),
        ("[ 2 -lt 10 ] && [ a != b -a -n x ] && [ ! -e /nope ] && echo ok", "ok\n"),
    ],
)  # fmt: skip
def test_a_script_prints(script: str, out: str) -> None:
    ended = sh(script, env={"L": "x  y"})
    assert ended.out == out


@pytest.mark.skipif(DASH is None, reason="no dash on this machine")
@pytest.mark.parametrize(
    "script",
    [
        "echo 'a\\nb' \"c\\td\"",
        "echo -n a; echo b",
        "foo",
        "true\n\n./foo",
        "a=1; a=2 b=$a; echo $b",
        "echo $UNSET; echo x$UNSET",
        "exit abc",
        "set -u; echo $UNSET",
        "cd /nope",
        "echo 'a",
        "if true; then",
        "echo a;; echo b",
        "echo \\\nb",
        "while true; do echo",
        "{ echo",
        "(echo",
        "if true; then echo a",
        "for i in a",
        "a &&",
        "if true; then; fi",
        "for",
        "while true; done",
        "[ a b c ]",
        "shift 5; echo on",
        "if true; done",
        "(true }",
        "printf",
        "while false; do :; done; echo $?",
        "! { false; }; echo $?",
        "true & wait $!; echo $?",
        "fi",
        "echo )",
        "for i in; do echo $i; done; echo end",
        "[ a -lt 1 ]",
        "[ a",
        "test -q x",
        "wait 99; echo $?",
        "X='a b'; set -- $X; echo $#",
        "echo \"a'b\" 'a\"b'",
        "unset PATH; echo $?",
        "break; echo on",
        "(echo a; exit 3) && echo b; echo $?",
        "if (exit 2); then echo y; else echo n$?; fi",
        "echo ${X:-a b}c",
        "X=; echo ${X-d}${X:-e}",
    ],
)
def test_the_shell_does_what_dash_does(script: str, tmp_path: Path) -> None:
    real = subprocess.run(
        ["sh", "-c", script],
        executable=DASH,
        env={"PATH": "/nowhere"},
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    ended = sh(script, env={"PATH": "/nowhere"})
    assert (ended.code, ended.out, ended.err) == (real.returncode, real.stdout, real.stderr)


def _signals_by_default() -> None:
    """What runs in the background or under nohup has these ignored, and bash would say so."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)


@pytest.mark.skipif(BASH is None, reason="no bash on this machine")
@pytest.mark.parametrize(
    "script",
    [
        "export; export A=\"x y\" B='$'; export",
        "export 1a=2; echo $?",
        "unset A; export -p",
        "cd /; cd /tmp; export",
        "echo -e 'a\\tb'; echo 'a\\tb'; echo -n x",
        "[ a == a ] && echo same; [ a b ]; echo $?",
        "exit abc",
        "shift 5; echo $?",
        "cd /nope; echo $?",
        "trap 'echo end' EXIT; trap; (exit 3)",
        "set -u; echo $UNSET; echo no",
        "foo; echo $?",
        "bash -c 'echo $SHLVL'; :",
    ],
)
def test_the_shell_does_what_bash_does(script: str) -> None:
    # Messages differ between releases of bash, so only output and status are compared.
    environment = {"PATH": "/usr/bin:/bin", "Q": "a'b\"c"}
    words = ["bash", "-c", script]
    real = subprocess.run(
        words,
        executable=BASH,
        env=environment,
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=_signals_by_default,
    )
    ended = bash(script, env=environment)
    assert (ended.code, ended.out) == (real.returncode, real.stdout)


def test_unknown_commands_end_with_127_in_the_words_of_the_shell() -> None:
    ended = sh("\nnvidia-smi -L; sleep 600")
    assert ended.err == "sh: 2: nvidia-smi: not found\n"
    assert sh("foo").code == 127
    assert bash("foo").err == "bash: foo: command not found\n"
    assert run("/bin/sh", "-c", "./foo").err == "/bin/sh: 1: ./foo: not found\n"


def test_nvidia_smi_lists_the_injected_gpus_in_pci_order() -> None:
    ended = sh("nvidia-smi -L; sleep 600", env=GPUS, advance=[599, 1])
    assert ended.out == "GPU 0: NVIDIA A30 (UUID: GPU-aa)\nGPU 1: NVIDIA A30 (UUID: GPU-bb)\n"
    assert (ended.code, ended.at) == (0, 600)


@pytest.mark.parametrize(
    ("script", "named"),
    [("a | b", "a pipe"), ("echo $(date)", "command substitution"), ("echo `date`", "command substitution"),
     ("case x in esac", "`case`"), ("f() { true; }", "a function"), ("cat <<E\nE", "a here document"),
     ("echo $((1+1))", "arithmetic"), ("echo ${A%x}", "the form ${A%x}"), ("a &> b", "`&>`")],
)  # fmt: skip
def test_what_the_shell_does_not_know_is_refused_by_name_before_anything_runs(
    script: str, named: str
) -> None:
    ended = sh(f"echo first; {script}")
    assert (ended.code, ended.out) == (2, "")
    assert f"does not know {named};" in ended.err


def test_children_end_with_their_shell() -> None:
    # Were the child alive, asyncio.run would find a task that was never awaited, and its output would be there.
    assert sh("(sleep 5; echo late) & exit 0", advance=[10]).out == ""


def test_files_of_mounts_are_read_and_written_on_the_host(tmp_path: Path) -> None:
    (tmp_path / "ro").mkdir()
    (tmp_path / "ro" / "f").write_text("content\n")
    (tmp_path / "log").touch()
    view = ContainerView(
        mounts=(
            VisibleMount("/data", str(tmp_path / "ro"), "bind", ("rbind", "ro")),
            VisibleMount("/dev/termination-log", str(tmp_path / "log"), "bind", ("rbind", "rw")),
        ),
        devices=(VisibleDevice("/dev/fakegpu0", "c", 240, 0),),
    )
    ended = sh(
        "cat /data/f; echo why >/dev/termination-log; [ -c /dev/fakegpu0 ] && echo dev; echo a >/data/g",
        view=view,
    )
    assert ended.out == "content\ndev\n"
    assert ended.err == "sh: 1: cannot create /data/g: Read-only file system\n"
    assert (tmp_path / "log").read_text() == "why\n"


@pytest.mark.parametrize(
    ("words", "out"),
    [
        ("/dev/fakegpu*", "/dev/fakegpu0 /dev/fakegpu1 /dev/fakegpuctl"),
        ("/dev/fakegpu[0-9]", "/dev/fakegpu0 /dev/fakegpu1"),
        ("/d*/fakegpu?", "/dev/fakegpu0 /dev/fakegpu1"),
        ("/dev/fakegpu[!c]", "/dev/fakegpu0 /dev/fakegpu1"),
        ("/data/*", "/data/a b /data/c*"),
        ("/data/.*d", "/data/.d"),
        ("/data/*/", "/data/*/"),
        ("/data/'c*'", "/data/c*"),
        ("'/dev/fakegpu'*l", "/dev/fakegpuctl"),
        ('"/dev/*"', "/dev/*"),
        ("/dev/\\*", "/dev/*"),
        ("/dev/x*", "/dev/x*"),
        ("$P", "/dev/fakegpu0 /dev/fakegpu1"),
        ('"$P"', "/dev/fakegpu?"),
        ("/data/c*/x", "/data/c*/x"),
    ],
)
def test_patterns_stand_for_the_paths_of_the_container(words: str, out: str, tmp_path: Path) -> None:
    for name in ("a b", "c*", ".d"):
        (tmp_path / name).touch()
    view = ContainerView(
        mounts=(VisibleMount("/data", str(tmp_path), "bind", ("rbind", "ro")),),
        devices=tuple(
            VisibleDevice(f"/dev/fakegpu{name}", "c", 240, number)
            for number, name in enumerate(("0", "1", "ctl"))
        ),
    )
    assert sh(f"P='/dev/fakegpu?'; echo {words}", view=view).out == f"{out}\n"


def test_ls_shows_no_name_with_a_dot_unless_it_is_asked_for(tmp_path: Path) -> None:
    for name in ("a", ".b"):
        (tmp_path / name).touch()
    view = ContainerView(mounts=(VisibleMount("/data", str(tmp_path), "bind", ("rbind", "ro")),))
    assert sh("ls /data; ls /data/.b", view=view).out == "a\n/data/.b\n"


def test_patterns_begin_in_the_folder_of_the_shell_and_serve_loops() -> None:
    view = ContainerView(devices=(VisibleDevice("/dev/fakegpu0", "c", 240, 0),))
    assert sh('cd /dev; for f in f*; do [ -c $f ] && echo $f; done; X=f*; echo "$X"', view=view).out == (
        "fakegpu0\nf*\n"
    )


def test_paths_do_not_lead_out_of_the_container(tmp_path: Path) -> None:
    assert sh(f"cat /../../..{tmp_path}/x; echo $?").out == "1\n"
    (tmp_path / "x").write_text("secret")
    assert "secret" not in sh(f"cat ../../..{tmp_path}/x").out


@pytest.mark.parametrize(
    ("line", "code", "err"),
    [
        (("sh",), 0, ""),
        (("sh", "-c"), 2, "sh: 0: -c requires an argument\n"),
        (("bash", "-c"), 2, "bash: -c: option requires an argument\n"),
        (("sh", "script"), 2, "sh: 0: cannot open script: No such file\n"),
        (("bash", "-euo", "pipefail", "-c", "false; echo no"), 1, ""),
        (("sh", "-ec", "false; echo no"), 1, ""),
    ],
)
def test_options_of_shells(line: tuple[str, ...], code: int, err: str) -> None:
    ended = run(*line)
    assert (ended.code, ended.err, ended.out) == (code, err, "")


def _fields(script: str) -> list[str]:
    return [
        text for token in split(script) if isinstance(token, Word) for text in expand(token, lambda _: None)
    ]


@given(st.lists(st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=12)))
def test_what_is_quoted_by_the_rules_comes_out_as_it_was(words: list[str]) -> None:
    quoted = " ".join("'" + word.replace("'", "'\\''") + "'" for word in words)
    # An empty word is kept only inside double quotes or by single quotes alone.
    assert _fields(quoted) == words
    double = " ".join('"' + "".join(f"\\{c}" if c in '$`"\\' else c for c in word) + '"' for word in words)
    assert _fields(double) == words


@given(st.text(alphabet="ab '\"\\$;&|(){}<>\n#=!?1${:-", max_size=30))
def test_any_text_is_parsed_or_refused(script: str) -> None:
    try:
        parse(script)
    except ShellSyntaxError as problem:
        assert problem.line >= 1
        assert problem.text
