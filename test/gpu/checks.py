"""What the scripts of this folder share: running a command with a time limit and a log, and a count of what passed."""
import os
import signal
import subprocess
import threading
import time


class Checks:
    """Named checks within a budget of seconds; each prints a line, logs go to a folder. Threads may run them at a time."""

    def __init__(self, logs, budget, slowness=1):
        self.logs, self.end, self.slowness = logs, time.monotonic() + budget, slowness
        self.passed, self.failed, self.lock = 0, [], threading.RLock()
        os.makedirs(logs, exist_ok=True)

    def left(self):
        return self.end - time.monotonic()

    def note(self, name, good, text=""):
        with self.lock:
            self.passed += good
            if not good:
                self.failed.append(name)
            print(f"{'ok  ' if good else 'FAIL'} {name}{': ' + text if text else ''}", flush=True)
        return good

    def run(self, name, command, limit=120, environment=None, show=0):
        """True if it exits with 0 in time. `show`: how many of its last lines are printed."""
        begin, limit = time.monotonic(), min(limit * self.slowness, self.left())
        if limit <= 1:
            return self.note(name, False, "no time left")
        path = os.path.join(self.logs, name.replace("/", "_").replace(" ", "_") + ".log")
        with open(path, "w") as log:
            process = subprocess.Popen([str(part) for part in command], stdout=log, stderr=subprocess.STDOUT,
                                       env={**os.environ, **(environment or {})}, start_new_session=True)
            try:
                code = process.wait(limit)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                code = "no end"
        with open(path, errors="replace") as log:
            lines = log.read().splitlines()
        good = code == 0
        with self.lock:
            self.note(name, good, f"{time.monotonic() - begin:.1f} s" + ("" if good else f", exit {code} (limit {limit:.0f} s)"))
            for line in lines[-(show if good else 15):] if show or not good else []:
                print("     " + line[:240], flush=True)
        return good

    def finish(self):
        for name in self.failed:
            print(f"failed: {name}")
        print(f"{self.passed} passed, {len(self.failed)} failed")
        return 1 if self.failed else 0
