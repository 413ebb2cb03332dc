"""An nginx of a test's own: the program of Debian's package, unpacked once, run as an ordinary user's process."""

import platform
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.ports import free_port

_CACHE = Path.home() / ".cache" / "eventlib" / "nginx"
_STARTS_S = 20.0
_CONFIG = """
daemon off;
master_process off;
pid {directory}/nginx.pid;
error_log {directory}/error.log;
events {{ worker_connections 512; }}
http {{
    client_body_temp_path {directory}/body;
    proxy_temp_path {directory}/proxy;
    fastcgi_temp_path {directory}/fastcgi;
    uwsgi_temp_path {directory}/uwsgi;
    scgi_temp_path {directory}/scgi;
    log_format outcomes "$status $msec $arg_id";
    access_log {directory}/access.log outcomes;
    limit_req_zone $server_port zone=all:1m rate={per_second}r/s;
    limit_req_status 429;
    server {{
        listen 127.0.0.1:{port};
        root {directory}/answers;
        location = /up {{ return 204; access_log off; }}
        location / {{ limit_req zone=all burst={burst} nodelay; try_files /answer =404; }}
    }}
}}
"""


class Nginx:
    """A server that answers so many requests a second, with a burst, and 429 to the others."""

    def __init__(self, directory: Path, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self._directory = directory

    def answered(self) -> list[tuple[int, float, str]]:
        """Return the status, the time (s) and the id of each request so far."""
        lines = (self._directory / "access.log").read_text(encoding="utf-8").splitlines()
        fields = [line.split(" ") for line in lines]
        return [(int(status), float(at), request_id) for status, at, request_id in fields]

    def statuses(self) -> Counter[int]:
        """Count the answers by their status."""
        return Counter(status for status, _, _ in self.answered())


@contextmanager
def running_nginx(directory: Path, per_second: int, burst: int) -> Iterator[Nginx]:
    """Run a server; skips the test where there is no program for this machine."""
    program, port = _program(), free_port()
    (directory / "answers").mkdir(parents=True)
    (directory / "answers" / "answer").write_text("done\n", encoding="utf-8")
    config = directory / "nginx.conf"
    config.write_text(_CONFIG.format(directory=directory, port=port, per_second=per_second, burst=burst))
    with subprocess.Popen([program, "-c", config, "-e", directory / "error.log"]) as process:
        try:
            _wait_for(f"http://127.0.0.1:{port}/up", process)
            yield Nginx(directory, port)
        finally:
            process.terminate()


def _wait_for(url: str, process: "subprocess.Popen[bytes]") -> None:
    until = time.monotonic() + _STARTS_S
    while True:
        try:
            httpx.get(url, timeout=1, trust_env=False).raise_for_status()
        except httpx.HTTPError:
            assert process.poll() is None, "nginx ended: see its error log"
            assert time.monotonic() < until, "nginx does not answer"
            time.sleep(0.05)
        else:
            return


def _program() -> Path:
    """Return nginx of this machine, or of Debian's package, which is fetched once."""
    installed = shutil.which("nginx")
    if installed is not None:
        return Path(installed)
    program = _CACHE / "usr" / "sbin" / "nginx"
    if not program.exists():
        if shutil.which("apt-get") is None:
            pytest.skip(f"there is no nginx here, and {platform.system()} has no apt-get to fetch it")
        _CACHE.mkdir(parents=True, exist_ok=True)
        fetched = subprocess.run(
            ["apt-get", "download", "nginx"], check=False, cwd=_CACHE, capture_output=True, text=True
        )
        packages = sorted(_CACHE.glob("nginx_*.deb"))
        if not packages:
            pytest.skip(f"nginx cannot be fetched: {fetched.stderr.strip()[-200:]}")
        subprocess.run(["dpkg", "-x", packages[-1], _CACHE], check=True)
    if subprocess.run([program, "-v"], check=False, capture_output=True).returncode:
        pytest.skip("the nginx of Debian's package does not run on this machine")
    return program
