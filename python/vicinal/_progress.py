"""Progress of long calls, and Ctrl-C in them.

The library reports from the calling thread. A Python exception cannot cross a C frame, and one that a signal handler raised
between two bytecodes of the callback would be lost there; so while a call runs in the main thread, SIGINT goes to a handler
that keeps what the program's own handler raises. The call is then cancelled and the exception raised when it is back.
"""
from __future__ import annotations

import ctypes
import signal
import sys
import threading
from types import FrameType, TracebackType
from typing import Any, Callable, Optional, Union

from . import _lib

Reporter = Callable[[str, int, int, float], Any]


class _Line:
    """One line on stderr, rewritten: what is shown where tqdm is not installed."""

    def __call__(self, stage: str, done: int, total: int, seconds: float) -> None:
        share = f"{100 * done / total:3.0f}% " if total else ""
        end = "\n" if total and done >= total else ""
        sys.stderr.write(f"\r{stage} {share}{done:,} in {seconds:.1f} s{end}")
        sys.stderr.flush()


class _Bar:
    """A tqdm bar for each stage."""

    def __init__(self, tqdm: Any) -> None:
        self._tqdm, self._bar, self._stage = tqdm, None, ""

    def __call__(self, stage: str, done: int, total: int, seconds: float) -> None:
        if self._bar is None or stage != self._stage:
            self.close()
            self._bar, self._stage = self._tqdm(total=total or None, desc=stage, unit_scale=True), stage
        bar: Any = self._bar
        bar.update(done - bar.n)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
        self._bar = None


def _reporter(progress: Union[bool, Reporter]) -> Optional[Reporter]:
    if progress is True:
        try:
            from tqdm.auto import tqdm  # type: ignore[import-untyped,unused-ignore]
        except ImportError:
            return _Line()
        return _Bar(tqdm)
    return progress or None


class Watch:
    """Around one long call: `with Watch(progress) as watch: check(call(..., watch.hook))`.

    progress: False, True (a bar), or a function of (stage, done, total, seconds) whose true answer cancels."""

    def __init__(self, progress: Union[bool, Reporter] = False) -> None:
        self._report = _reporter(progress)
        self._caught: Optional[BaseException] = None
        self._previous: Any = None
        self.hook = _lib.Progress()

    def _on_report(self, user: Optional[int], state: Any) -> int:
        if self._caught is None and self._report is not None:
            try:
                now = state.contents
                if self._report(now.stage.decode(), now.done, now.total, now.seconds):
                    return 1
            except BaseException as error:
                self._caught = error
        return int(self._caught is not None)

    def _on_signal(self, number: int, frame: Optional[FrameType]) -> None:
        try:
            self._previous(number, frame)
        except BaseException as error:
            self._caught = error

    def __enter__(self) -> "Watch":
        interruptible = threading.current_thread() is threading.main_thread() and callable(signal.getsignal(signal.SIGINT))
        if interruptible:
            self._previous = signal.signal(signal.SIGINT, self._on_signal)
        if interruptible or self._report:
            self.hook.report = _lib.REPORT(self._on_report)
        return self

    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        if self._previous is not None:
            signal.signal(signal.SIGINT, self._previous)
        if isinstance(self._report, _Bar):
            self._report.close()
        caught, self._caught = self._caught, None
        self.hook = _lib.Progress()  # the callback holds this object: without this line, a cycle
        if caught is not None:
            raise caught from None
