"""`inturn bot`: what it says, how it ends, and the chat in a terminal."""

from __future__ import annotations

import io
import os
import pty
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from inturn.bot import console
from inturn.bot.console import HINT
from inturn.bot.conversation import Texts
from inturn.cli.main import main
from tests.bot.beside_telegram import Script, beside_telegram
from tests.cli.conftest import Captured, one_sentence
from tests.servers.telegram import TOKEN, ServerError, TelegramServer, inbox
from tests.waiting import wait_until

USER = 42
WITHIN_S = 100.0
CONSOLE = [sys.executable, "-m", "inturn.cli.main", "bot", "--console"]
QUICK = {"INTURN_BOT_QUIET": "0.2", "INTURN_OFFLINE_PACE": "0"}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in QUICK.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(inbox, "REPEATED_POLL_S", 0.1)


def with_telegram(
    monkeypatch: pytest.MonkeyPatch, script: Script, *words: str, token: str = TOKEN, ends_itself: bool = False
) -> int:
    monkeypatch.setenv("INTURN_BOT_TOKEN", token)
    return beside_telegram(monkeypatch, script, ["bot", *words], ends_itself=ends_itself)


async def nothing(telegram: TelegramServer) -> None:
    """Nobody writes."""


async def a_webhook(telegram: TelegramServer) -> None:
    telegram._bot(None).inbox.set_webhook({"url": "http://127.0.0.1:9/hook"})


# -- on Telegram -----------------------------------------------------------------------------------------------------


def test_it_answers_on_telegram_until_a_signal_and_confirms_what_it_took(
    monkeypatch: pytest.MonkeyPatch, sqlite_url: str, capsys: Captured
) -> None:
    async def script(telegram: TelegramServer) -> None:
        telegram.say(USER, "/start")
        await telegram.until(lambda: telegram.texts(USER) == [Texts().start])
        ends.append(telegram)

    ends: list[TelegramServer] = []
    assert with_telegram(monkeypatch, script, "--url", sqlite_url) == 0
    assert ends[0].pending == []
    out, err = capsys.readouterr()
    assert out == "inturn bot polls Telegram (agent offline)\n"
    assert TOKEN not in out + err


@pytest.mark.parametrize(("grace", "pace", "code"), [("30", "0.02", 0), ("0", "10", 1)])
def test_a_running_turn_has_the_grace_to_finish(
    monkeypatch: pytest.MonkeyPatch, sqlite_url: str, grace: str, pace: str, code: int
) -> None:
    async def script(telegram: TelegramServer) -> None:
        telegram.say(USER, "hello")
        await telegram.until(lambda: telegram.actions)

    monkeypatch.setenv("INTURN_BOT_QUIET", "0")
    monkeypatch.setenv("INTURN_OFFLINE_PACE", pace)
    assert with_telegram(monkeypatch, script, "--url", sqlite_url, "--grace", grace) == code


def test_without_a_token_it_says_so_and_names_the_console(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Captured
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["bot"]) == 2
    assert list(tmp_path.iterdir()) == []
    told = one_sentence(capsys.readouterr().err)
    assert "INTURN_BOT_TOKEN is not set: it is the token that BotFather on Telegram gives you" in told
    assert "inturn bot --console" in told


def test_the_console_has_no_webhook(capsys: Captured) -> None:
    assert main(["bot", "--console", "--delete-webhook"]) == 2
    assert "--delete-webhook: has nothing to do with --console" in one_sentence(capsys.readouterr().err)


@pytest.mark.parametrize("closed", ["stdin", "stdout"])
def test_a_console_without_input_or_output_ends_in_silence(tmp_path: Path, closed: str) -> None:
    redirected = "<&-" if closed == "stdin" else "</dev/null >&-"
    command = ["sh", "-c", f'exec "$@" {redirected}', "sh", *CONSOLE, "--url", f"sqlite:///{tmp_path}/x.db"]
    ended = subprocess.run(command, env=os.environ | QUICK, capture_output=True, timeout=150)
    assert (ended.returncode, ended.stderr) == (0, b"")


def test_a_token_of_another_shape_is_told_without_showing_it(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTURN_BOT_TOKEN", "hunter2")
    assert main(["bot"]) == 2
    told = one_sentence(capsys.readouterr().err)
    assert "INTURN_BOT_TOKEN: must look like 123456:ABC-DEF" in told
    assert "hunter2" not in told


@pytest.mark.parametrize("words", [[], ["--delete-webhook"]])
def test_a_token_that_telegram_does_not_know_is_told_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch, sqlite_url: str, capsys: Captured, words: list[str]
) -> None:
    words = ["--url", sqlite_url, *words]
    assert with_telegram(monkeypatch, nothing, *words, token="4200:another", ends_itself=True) == 2
    assert "INTURN_BOT_TOKEN: Telegram does not know this token" in one_sentence(capsys.readouterr().err)


def test_a_webhook_is_told_and_can_be_deleted(
    monkeypatch: pytest.MonkeyPatch, sqlite_url: str, capsys: Captured
) -> None:
    async def deletes(telegram: TelegramServer) -> None:
        await a_webhook(telegram)
        telegram.will("deleteWebhook", do=ServerError())
        telegram.say(USER, "/start")
        await telegram.until(lambda: telegram.texts(USER))

    assert with_telegram(monkeypatch, a_webhook, "--url", sqlite_url, ends_itself=True) == 2
    assert "or take it away with inturn bot --delete-webhook" in one_sentence(capsys.readouterr().err)
    assert with_telegram(monkeypatch, deletes, "--url", sqlite_url, "--delete-webhook") == 0


def test_the_help_names_both_ways_and_what_they_need(capsys: Captured) -> None:
    assert main(["bot", "--help"]) == 0
    told = capsys.readouterr().out
    for word in ("--console", "--delete-webhook", "--grace", "INTURN_BOT_TOKEN", "INTURN_BOT_WEBHOOK_URL"):
        assert word in told
    assert main(["bot", "--grace", "-1"]) == 2
    assert "grace" in one_sentence(capsys.readouterr().err)


# -- in a terminal ---------------------------------------------------------------------------------------------------


def chat(folder: Path, text: bytes, *words: str, **environ: str) -> subprocess.CompletedProcess[bytes]:
    """On a pipe, with the store that it takes by default."""
    return subprocess.run(
        [*CONSOLE, *words], input=text, capture_output=True, cwd=folder, timeout=150, env=os.environ | environ,
        check=False,
    )  # fmt: skip


def test_on_a_pipe_it_answers_and_ends_by_itself(tmp_path: Path) -> None:
    done = chat(tmp_path, b"/start\n/proactive\nlanes?\nand order?\n")
    assert (done.returncode, done.stderr) == (0, b"")
    lines = done.stdout.decode().splitlines()
    assert lines[0] == HINT
    assert f"bot> {Texts().start}" in lines
    assert any("Each of your messages goes into your lane" in line for line in lines)
    assert [path.suffix for path in tmp_path.iterdir()] == [".db"]


def test_it_answers_a_burst_once_with_a_typing_sign_and_knows_the_commands(tmp_path: Path) -> None:
    lines = b"hello\nlanes?\n/quiet 22:00-08:00 Europe/Berlin\n"  # the command ends the burst, and nothing else does
    done = chat(tmp_path, lines, INTURN_OFFLINE_PACE="0.02", INTURN_BOT_QUIET="10")
    said = done.stdout.decode()
    assert "bot> I will not write first during these hours: 22:00-08:00 Europe/Berlin\n" in said
    assert said.count("(typing …)") == 1
    assert said.splitlines()[-1].startswith("bot> ")


@pytest.mark.parametrize("token", ["", "123456:ABC-DEF"])
def test_it_writes_first_when_it_is_asked_to(tmp_path: Path, token: str) -> None:
    done = chat(tmp_path, b"/proactive\n", INTURN_BOT_TOKEN=token, INTURN_OFFLINE_PACE="0.02")
    assert (done.returncode, done.stderr) == (0, b"")
    _, typing, message = done.stdout.decode().splitlines()
    assert (typing.strip(), message[:5]) == ("(typing …)", "bot> ")


@pytest.mark.parametrize("environ", [{"LC_ALL": "C.UTF-8"}, {"PYTHONUTF8": "0", "LC_ALL": "C"}], ids=["utf-8", "ascii"])
def test_bytes_that_are_no_text_and_a_terminal_without_unicode_do_no_harm(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    done = chat(tmp_path, "/reset\xff\n/help\n€".encode("latin-1", "ignore") + b"\x80\n", **environ)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"/reset - forget our conversation" in done.stdout


def test_it_leaves_alone_what_a_bot_on_telegram_has_in_the_same_store(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, sqlite_url: str
) -> None:
    async def script(telegram: TelegramServer) -> None:
        telegram.say(USER, "hello")
        await telegram.until(lambda: telegram.actions)

    monkeypatch.setenv("INTURN_BOT_QUIET", "0")
    monkeypatch.setenv("INTURN_OFFLINE_PACE", "0.02")
    assert with_telegram(monkeypatch, script, "--url", sqlite_url) == 0  # the answer is there, and not sent yet
    done = chat(tmp_path, b"/start\n", "--url", sqlite_url)
    assert done.stdout.decode().splitlines() == [HINT, f"bot> {Texts().start}"]

    async def is_sent(telegram: TelegramServer) -> None:
        await telegram.until(lambda: telegram.texts(USER))

    assert with_telegram(monkeypatch, is_sent, "--url", sqlite_url) == 0


def test_a_long_namespace_is_shortened_for_the_console(tmp_path: Path) -> None:
    assert chat(tmp_path, b"/quit\n", "--namespace", "n" * 64).returncode == 0


def test_a_store_that_is_away_is_told_in_one_sentence(tmp_path: Path) -> None:
    done = chat(tmp_path, b"hello\n", "--url", "redis://127.0.0.1:9/0", INTURN_STORE_TIMEOUT="0.5")
    assert (done.returncode, done.stdout) == (1, b"")
    one_sentence(done.stderr.decode())


@pytest.mark.parametrize(
    ("typed", "code"), [(b"\x03", 130), (b"/quit\n", 0), (b"\x04", 0)], ids=["Ctrl-C", "/quit", "Ctrl-D"]
)
def test_in_a_terminal_it_ends_cleanly(tmp_path: Path, typed: bytes, code: int) -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(tmp_path)
        os.execv(sys.executable, CONSOLE)
    shown = bytearray()

    def read() -> None:
        try:
            while found := os.read(terminal, 4096):
                shown.extend(found)
        except OSError:  # it has ended
            return

    reading = threading.Thread(target=read)
    reading.start()
    try:
        wait_until(lambda: HINT.encode() in shown, WITHIN_S)
        os.write(terminal, b"/start\n")
        wait_until(lambda: b"bot> Hello!" in shown, WITHIN_S)
        os.write(terminal, typed)
        reading.join(WITHIN_S)
        assert not reading.is_alive(), shown
    finally:
        os.kill(pid, signal.SIGKILL)  # it is not waited for yet, so the number is still its own
        _, status = os.waitpid(pid, 0)
        reading.join(20)
        os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == code
    assert b"Traceback" not in shown
    assert b"Fatal" not in shown


def test_two_consoles_on_one_store_do_not_mix_their_answers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, sqlite_url: str, capsys: Captured
) -> None:
    # it keeps its place though it stands still
    kept = "import sys; from inturn.bot import console; console.HOLD_S = 600.0; from inturn.cli.main import main; "
    command = [sys.executable, "-c", f"{kept} sys.exit(main())", "bot", "--console", "--url", sqlite_url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == f"{HINT}\n"
        monkeypatch.setattr(console, "HOLD_S", 0.1)
        monkeypatch.setattr(sys, "stdin", io.StringIO("/help\n"))
        assert main(["bot", "--console", "--url", sqlite_url]) == 1
        assert first.communicate("/start\n", timeout=150)[0] == f"bot> {Texts().start}\n"
    out, err = capsys.readouterr()
    assert out == ""
    assert "another console is open on this store" in one_sentence(err)
    assert first.returncode == 0


WITHOUT_AIOGRAM = """
import sys
sys.modules["aiogram"] = sys.modules["aiohttp"] = None
from inturn.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


def without_aiogram(folder: Path, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_AIOGRAM, "bot", *words], input="/start\n", capture_output=True, text=True,
        cwd=folder, env=os.environ | environ, timeout=150, check=False,
    )  # fmt: skip


def test_the_console_needs_no_aiogram(tmp_path: Path) -> None:
    done = without_aiogram(tmp_path, "--console")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"bot> {Texts().start}" in done.stdout


def test_without_aiogram_the_bot_names_the_extra(tmp_path: Path) -> None:
    done = without_aiogram(tmp_path, INTURN_BOT_TOKEN=TOKEN)
    assert done.returncode == 2
    assert one_sentence(done.stderr) == "inturn: inturn bot needs the extra 'bot': pip install 'inturn[bot]'\n"
