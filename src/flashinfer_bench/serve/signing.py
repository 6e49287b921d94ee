"""Signatures: a worker signs each trace line together with the digest of its samples; whoever has them can check."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from flashinfer_bench.data import appending, settings
from flashinfer_bench.data.blobs import samples_line
from flashinfer_bench.data.entity import Entity, NonEmptyStr
from flashinfer_bench.errors import MissingPackageError, UsageError

try:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )
except ImportError:
    raise MissingPackageError("cryptography", extra="service", needed_for="signing") from None

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from flashinfer_bench.data import Trace

PublicKey = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
"""Of ed25519, as hexadecimal digits."""
Signature = Annotated[str, Field(pattern=r"^[0-9a-f]{128}$")]
_KEY_BYTES = 32
_HEX = re.compile(rb"[0-9a-f]+\n?")
_READABLE_BY_OTHERS = 0o077


class SignedTrace(Entity):
    """A line of a file of signatures: who signed which trace."""

    trace_id: NonEmptyStr
    worker: NonEmptyStr
    key: PublicKey
    samples_sha256: str | None = None
    """Digest of the line of samples; null where none were taken."""
    signature: Signature

    def covers(self, line: bytes) -> bool:
        """Whether it is a signature of this trace line, without its end."""
        message = trace_message(line, self.worker, self.samples_sha256)
        return is_signed(message, self.signature, self.key)


class SigningKey:
    """A private key; it never leaves this machine."""

    def __init__(self, private: Ed25519PrivateKey | None = None) -> None:
        self._private = private or Ed25519PrivateKey.generate()
        self.public: str = self._private.public_key().public_bytes_raw().hex()

    @classmethod
    def of_file(cls, path: Path) -> SigningKey:
        """Read a key; it is made where there is none, for its owner alone."""
        if not path.exists():
            _write_new(path, Ed25519PrivateKey.generate().private_bytes_raw())
        try:
            is_shared = path.stat().st_mode & _READABLE_BY_OTHERS
            text = path.read_bytes()
        except OSError as error:
            raise UsageError(f"cannot read the key {path}: {error.strerror}") from error
        if is_shared:
            raise UsageError(f"others can read the key {path}: chmod 600 {path}")
        content = bytes.fromhex(text.decode()) if _HEX.fullmatch(text) else b""
        if len(content) != _KEY_BYTES:
            raise UsageError(f"{path} holds no key; name another file, and one is made")
        return cls(Ed25519PrivateKey.from_private_bytes(content))

    def sign(self, message: bytes) -> str:
        """Sign a message."""
        return self._private.sign(message).hex()


def worker_key_file() -> Path:
    """Where a worker's key lies: in the cache folder, beside the tasks."""
    return settings.cache_path() / "service" / "worker.key"


def is_signed(message: bytes, signature: str, key: str) -> bool:
    """Tell whether a signature is this key's, of this message."""
    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(key)).verify(
            bytes.fromhex(signature), message
        )
    except (InvalidSignature, ValueError):
        return False
    return True


def trace_message(line: bytes, worker: str, samples_sha256: str | None) -> bytes:
    """Give what is signed of a trace line."""
    parts = ("flashinfer-bench trace 1", sha256(line), samples_sha256 or "-", worker)
    return "\n".join(parts).encode()


def samples_digest(trace: Trace, samples: Mapping[str, Sequence[float]] | None) -> str | None:
    """Give the digest of a trace's line of samples; None where there are none."""
    return sha256(samples_line(trace, samples).removesuffix(b"\n")) if samples else None


def sha256(content: bytes) -> str:
    """Give a digest as hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def _write_new(path: Path, key: bytes) -> None:
    """Write a key whole, unless another process was faster."""
    appending.make_folders(path.parent)
    staged = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(staged, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(key.hex())
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            path.hardlink_to(staged)
    finally:
        staged.unlink()
    appending.fsync_folder(path.parent)
