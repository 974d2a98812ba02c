"""A certificate authority of the test's own."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.servers import PrivateRedis


class Certificates:
    """An authority, and what it has signed. The server's certificate names 127.0.0.1 and nothing else."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ca = self._authority("ca")
        self.other_ca = self._authority("other")
        self._signed("server", "subjectAltName=IP:127.0.0.1")
        self._signed("client", "extendedKeyUsage=clientAuth")

    def _authority(self, name: str) -> Path:
        self._openssl("req", "-x509", "-days", "2", *self._new_key(name), "-out", f"{name}.crt", "-subj", f"/CN={name}")
        return self.folder / f"{name}.crt"

    def _signed(self, name: str, extension: str) -> None:
        self._openssl("req", *self._new_key(name), "-out", f"{name}.csr", "-subj", f"/CN={name}")
        (self.folder / f"{name}.ext").write_text(extension)
        by = ["-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", f"{name}.ext"]
        self._openssl("x509", "-req", "-in", f"{name}.csr", *by, "-out", f"{name}.crt")

    @staticmethod
    def _new_key(name: str) -> list[str]:
        return ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", f"{name}.key"]

    def _openssl(self, *command: str) -> None:
        subprocess.run(["openssl", *command], cwd=self.folder, check=True, capture_output=True)

    def server(self, *, wants_certificates: bool = False) -> PrivateRedis:
        files = {"--tls-cert-file": "server.crt", "--tls-key-file": "server.key", "--tls-ca-cert-file": "ca.crt"}
        extra = [word for option, name in files.items() for word in (option, str(self.folder / name))]
        wanted = "yes" if wants_certificates else "no"
        return PrivateRedis(extra=("--port", "0", "--tls-port", "{port}", *extra, "--tls-auth-clients", wanted))
