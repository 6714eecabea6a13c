# SPDX-License-Identifier: MIT
"""Runs one guest or several to their end.

Commands start when every guest is up, and guests power off when every command
has ended: so what a command left in the kernel or running, such as a server, is
there for the others. A command that fails ends the others soon. In between,
guests meet (vm/barrier).
"""

import os
import selectors
import sys
import time

GRACE = 5       # seconds for the others to end by themselves, and to say what they think, when one has failed
SPARE = 60      # and for them to power off after that


class Together:
    def __init__(self, sessions):
        self.sessions = sessions
        self.failed = None          # the first that did
        self.failed_at = None
        self.streams = {session: 0 for session in sessions}     # how many are open
        self.selector = selectors.DefaultSelector()

    def run(self):
        """Until QEMU has closed every stream of every guest."""
        try:
            for session in self.sessions:
                session.start()
                for port, taker in session.takers().items():
                    self.selector.register(session.host[port], selectors.EVENT_READ, (session, taker))
                    self.streams[session] += 1
            if self.sessions[0].options.interactive:
                self.selector.register(sys.stdin, selectors.EVENT_READ, None)
            while any(self.streams.values()):
                for key, _ in self.selector.select(self._patience()):
                    self._take(key)
                self._direct()
        finally:
            for session in self.sessions:
                session.kill()
        for session in self.sessions:
            session.finish()

    # ---- streams ---------------------------------------------------------

    def _patience(self):
        deadlines = [session.deadline() for session in self.sessions if self.streams[session]]
        if self.failed:
            deadlines.append(self.failed_at + GRACE if not all(s.off for s in self.sessions) else None)
        known = [deadline for deadline in deadlines if deadline is not None]
        return max(min(known) - time.monotonic(), 0) if known else None

    def _take(self, key):
        if key.data is None:
            self._keys()
            return
        session, taker = key.data
        try:
            data = key.fileobj.recv(65536)
        except ConnectionError:
            data = b""
        if data:
            taker(data)
        else:
            self.selector.unregister(key.fileobj)
            self.streams[session] -= 1

    def _keys(self):
        session = self.sessions[0]
        keys = os.read(sys.stdin.fileno(), 4096)
        if not keys or b"\x1d" in keys:     # Ctrl-]
            session.kill()
        else:
            session.tell("tty", keys)

    # ---- who does what when ------------------------------------------------

    def _over(self, session):
        """It has ended, one way or the other."""
        return session.ended or session.failure or not self.streams[session]

    def _direct(self):
        now = time.monotonic()
        for session in self.sessions:
            deadline = session.deadline()
            if self.streams[session] and deadline is not None and deadline <= now:
                session.late = True
                session.kill()
            failed = session.late or (self._over(session) and session.status != 0)
            if failed and not self.failed:
                self.failed, self.failed_at = session, now
        if all(session.ready for session in self.sessions) and not self.sessions[0].started:
            for session in self.sessions:
                session.go()
        if all(self._over(session) for session in self.sessions):
            self._power_off()
        elif self.failed and now >= self.failed_at + GRACE:
            self._power_off(SPARE)
        self._meet()

    def _power_off(self, spare=None):
        for session in self.sessions:
            if session.off or not self.streams[session]:
                continue
            if session.started:
                session.power_off(spare)
            else:
                session.kill()

    def _meet(self):
        """Who has come to a meeting may go when all have, or when one never will."""
        for name in {name for session in self.sessions for name in session.meeting}:
            there = [session for session in self.sessions if name in session.meeting]
            missing = [session for session in self.sessions if session not in there]
            gone = [session.name for session in missing if self._over(session)]
            if missing and not gone:
                continue
            for session in there:
                session.meeting.remove(name)
                session.tell("meet", f"{'gone ' + ' '.join(gone) if gone else 'met'}\n".encode())

    # ---- the verdict ---------------------------------------------------------

    def emulator_slipped(self):
        return any(session.emulator_slipped() for session in self.sessions)

    def verdict(self):
        """The exit code of vm/run."""
        codes = {session: session.verdict() for session in self.sessions}
        if len(codes) == 1:
            return codes[self.sessions[0]]
        first = self.failed or next((session for session, code in codes.items() if code), None)
        if not first:
            return 0
        others = ", ".join(f"{session.name} {self._fate(session, code)}" for session, code in codes.items()
                           if session is not first)
        print(f"vm/run: {first.name} failed first ({codes[first]}); {others}", file=sys.stderr, flush=True)
        return codes[first]

    def _fate(self, session, code):
        killed = self.failed and session.off and (not session.ended or session.ended > session.off)
        return "was ended" if killed else f"ended with {code}"
