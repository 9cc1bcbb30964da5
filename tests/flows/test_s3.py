"""A root in S3-compatible storage: what it stores, what it finds out of a server, and what it says of a mistake."""

from __future__ import annotations

import datetime
import ipaddress
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from botocore import exceptions as boto
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from flows import s3, s3_client
from flows.s3 import S3Root
from flows.s3_errors import explained
from flows.storage import ConflictError, Put, StorageError, Stored
from tests.flows.proxy import Fault, Proxy
from tests.flows.seaweed import ADMIN, READER, Bucket, SeaweedServer, free_ports

pytestmark = pytest.mark.faults

NAMES = ["a b", "dense/3x3", "ü/日本", "a.b..c", "a=b&c", "x%2Fy+z", "'\"<>"]


@pytest.fixture
def place(bucket: Bucket) -> S3Root:
    return S3Root(bucket.name, "some/prefix")


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3_client, "PATIENCE_S", 0.3)


@pytest.mark.parametrize("name", NAMES)
def test_any_key_is_stored_listed_read_and_removed(bucket: Bucket, place: S3Root, name: str) -> None:
    assert place.put(name, b"content") is Put.SENT
    assert bucket.contents() == {f"some/prefix/{name}": b"content"}
    assert list(place.files()) == [Stored(name, 7)]
    assert place.read(name) == b"content"
    place.delete(name)
    place.delete(name)
    assert bucket.contents() == {}


def test_a_key_is_stored_once(bucket: Bucket, place: S3Root, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"one")
    assert place.put("key", tmp_path / "file") is Put.SENT
    assert place.put("key", b"one") is Put.THERE
    with pytest.raises(ConflictError, match="key holds other content already"):
        place.put("key", b"two")
    assert bucket.contents() == {"some/prefix/key": b"one"}


def test_of_many_racing_writers_one_wins(bucket: Bucket, place: S3Root) -> None:
    place.check()

    def write(number: int) -> Put | None:
        try:
            return place.put("key", str(number).encode())
        except ConflictError:
            return None

    with ThreadPoolExecutor(8) as pool:
        won = [number for number, put in enumerate(pool.map(write, range(8))) if put is Put.SENT]
    assert bucket.contents() == {"some/prefix/key": str(won[0]).encode()}
    assert len(won) == 1


def test_of_two_racing_uploads_in_parts_one_is_stored(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3, "PART_NBYTES", 5 << 20)
    content = bytes(11 << 20)
    (tmp_path / "file").write_bytes(content)
    places = [S3Root(bucket.name, "prefix") for _ in range(2)]
    with ThreadPoolExecutor(2) as pool:
        puts = list(pool.map(lambda place: place.put("key", tmp_path / "file"), places))
    assert Put.SENT in puts
    assert bucket.contents() == {"prefix/key": content}
    assert bucket.begun_uploads() == []


def test_a_prefix_lists_its_own_and_nothing_hidden(bucket: Bucket, place: S3Root) -> None:
    for key in ("some/prefix/a", "some/prefix-2/b", "some/prefix/.probe/x", "some/prefix/folder/", "other"):
        bucket.put(key, b"1")
    assert [stored.key for stored in place.files()] == ["a"]
    assert list(place.files("b")) == []


def test_a_whole_bucket_is_a_root(bucket: Bucket) -> None:
    place = S3Root(bucket.name, "")
    assert place.address == f"s3://{bucket.name}"
    place.put("a/b", b"1")
    assert bucket.contents() == {"a/b": b"1"}


def test_what_is_missing_is_said(place: S3Root) -> None:
    assert place.sha256("key") is None
    with pytest.raises(StorageError, match="there is no key") as caught:
        place.read("key")
    assert caught.value.status == 404


def test_pyarrow_reads_a_dataset_with_the_same_settings(bucket: Bucket, place: S3Root) -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"x": [1, 2]}), sink)
    place.put("timings/date=2026-12-01/a.parquet", sink.getvalue().to_pybytes())
    filesystem, path = place.filesystem()
    found = ds.dataset(f"{path}/timings", filesystem=filesystem, partitioning="hive").to_table()
    assert found.column("x").to_pylist() == [1, 2]
    assert found.column("date").to_pylist() == ["2026-12-01"] * 2


# The probe.


def test_the_probe_says_in_a_line_what_the_server_honours_and_leaves_nothing(bucket: Bucket, place: S3Root) -> None:
    honoured = "conditional puts honoured, conditional multipart honoured, checksums verified, delete allowed"
    assert place.check() == f"s3://{bucket.name}/some/prefix: {honoured}"
    assert bucket.contents() == {}
    assert bucket.begun_uploads() == []


def test_probes_side_by_side_agree(bucket: Bucket) -> None:
    places = [S3Root(bucket.name, "prefix") for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        told = set(pool.map(lambda place: place.check(), places))
    assert len(told) == 1
    assert "puts honoured, conditional multipart honoured" in told.pop()


@pytest.mark.parametrize("refusal", [(501, "NotImplemented"), (400, "InvalidArgument"), None])
def test_without_conditional_puts_it_looks_first_and_says_that_races_are_not_safe(
    bucket: Bucket, proxy: Proxy, refusal: tuple[int, str] | None
) -> None:
    proxy.blind = refusal is None
    proxy.refused = {"If-None-Match": refusal} if refusal else {}
    place = S3Root(bucket.name, "prefix")
    assert "conditional puts ignored" in place.check()
    assert "racing uploaders are not safe here" in place.check()
    assert place.put("key", b"one") is Put.SENT
    assert place.put("key", b"one") is Put.THERE
    with pytest.raises(ConflictError):
        place.put("key", b"two")
    assert bucket.contents() == {"prefix/key": b"one"}


@pytest.mark.parametrize("status", [400, 411, 501])
def test_a_server_that_refuses_newer_checksums_gets_none(bucket: Bucket, proxy: Proxy, status: int) -> None:
    refused = (status, "InvalidRequest")
    proxy.refused = {
        "x-amz-checksum-sha256": refused,
        "x-amz-sdk-checksum-algorithm": refused,
        "x-amz-trailer": refused,
    }
    place = S3Root(bucket.name, "prefix")
    assert "no checksums" in place.check()
    assert place.put("key", b"one") is Put.SENT
    assert place.read("key") == b"one"
    assert bucket.contents() == {"prefix/key": b"one"}


def test_without_the_right_to_delete_one_object_of_the_probe_stays(bucket: Bucket, proxy: Proxy) -> None:
    proxy.faults = lambda method, _path: Fault(403, "AccessDenied") if method == "DELETE" else None
    for _ in range(2):
        assert "delete refused" in S3Root(bucket.name, "prefix").check()
    assert list(bucket.contents()) == ["prefix/.probe/jitmatrix"]
    assert list(S3Root(bucket.name, "prefix").files()) == []


def test_a_clock_that_is_a_little_off_is_said(bucket: Bucket, proxy: Proxy) -> None:
    place = S3Root(bucket.name, "prefix")
    place.check()
    early = datetime.datetime.now(datetime.UTC) - datetime.timedelta(minutes=5)
    proxy.date = early.strftime("%a, %d %b %Y %H:%M:%S GMT")
    assert "this machine's clock is +3" in S3Root(bucket.name, "prefix").check()


# Mistakes: a line each.

Change = Callable[[pytest.MonkeyPatch, Bucket, Proxy], str | None]


def _variables(**variables: str) -> Change:
    def change(patch: pytest.MonkeyPatch, _bucket: Bucket, _proxy: Proxy) -> None:
        for name, value in variables.items():
            patch.setenv(name, value)

    return change


def _no_credentials(patch: pytest.MonkeyPatch, _bucket: Bucket, _proxy: Proxy) -> None:
    patch.delenv("AWS_ACCESS_KEY_ID")
    patch.delenv("AWS_SECRET_ACCESS_KEY")


def _no_server(patch: pytest.MonkeyPatch, _bucket: Bucket, _proxy: Proxy) -> None:
    patch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_ports(1)[0]}")


def _https_to_http(patch: pytest.MonkeyPatch, _bucket: Bucket, proxy: Proxy) -> None:
    patch.setenv("AWS_ENDPOINT_URL", proxy.endpoint.replace("http", "https"))


def _an_object(_patch: pytest.MonkeyPatch, bucket: Bucket, _proxy: Proxy) -> None:
    bucket.put("prefix", b"an object")


def _faulty(status: int, code: str, **headers: str) -> Change:
    def change(_patch: pytest.MonkeyPatch, _bucket: Bucket, proxy: Proxy) -> None:
        proxy.faults = lambda _method, _path: Fault(status, code, headers)

    return change


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda *_: "nobody-has-it", "there is no bucket nobody-has-it at http://127.0.0.1:{port}; make it"),
        (lambda *_: "Bad_Name", "Bad_Name"),
        (
            _variables(AWS_ACCESS_KEY_ID=READER[0], AWS_SECRET_ACCESS_KEY=READER[1]),
            "no permission, s3:PutObject is missing",
        ),
        (_variables(AWS_ACCESS_KEY_ID="NOBODY"), "the access key is not known at http://127.0.0.1:{port}; check AWS_"),
        (_variables(AWS_SECRET_ACCESS_KEY="wrong"), "the secret key does not fit the access key"),
        (_no_credentials, "no credentials are found; set AWS_PROFILE"),
        (_variables(AWS_PROFILE="nobody"), "no credentials are found; set AWS_PROFILE"),
        (_no_server, "no answer from http://127.0.0.1:"),
        (_variables(AWS_ENDPOINT_URL="127.0.0.1:8333"), "AWS_ENDPOINT_URL is no address; write it as https://host"),
        (_https_to_http, "does not speak https; write http:// in AWS_ENDPOINT_URL"),
        (_an_object, "there is an object of that name; name a prefix that is none"),
        (_faulty(400, "ExpiredToken"), "the credentials have expired (ExpiredToken); renew them"),
        (_faulty(301, "PermanentRedirect", **{"x-amz-bucket-region": "mars-1"}), "set AWS_DEFAULT_REGION to mars-1"),
        (_faulty(403, "RequestTimeTooSkewed", date="Tue, 01 Dec 2020 10:00:00 GMT"), "min ahead of the server's"),
    ],
)
@pytest.mark.usefixtures("impatient")
def test_a_mistake_is_a_line_that_says_how_to_mend_it(
    bucket: Bucket, proxy: Proxy, monkeypatch: pytest.MonkeyPatch, change: Change, line: str
) -> None:
    name = change(monkeypatch, bucket, proxy) or bucket.name
    with pytest.raises(StorageError) as caught:
        S3Root(name, "prefix").check()
    told = str(caught.value)
    assert line.format(port=proxy.port) in told
    assert told.startswith(f"s3://{name}/prefix: ")
    assert "\n" not in told
    assert ADMIN[1] not in told


@pytest.mark.parametrize(
    "password", ["hunter2", "hun/ter2", "hun#ter2", "hun?ter2", "hun@ter2", "hu]n[ter2", "9/ter2", "9#ter2"]
)
@pytest.mark.usefixtures("impatient")
def test_a_password_in_the_endpoint_is_never_told(monkeypatch: pytest.MonkeyPatch, password: str) -> None:
    for name, value in {"ACCESS_KEY_ID": "a", "SECRET_ACCESS_KEY": "b", "DEFAULT_REGION": "us-east-1"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://me:{password}@127.0.0.1:{free_ports(1)[0]}")
    with pytest.raises(StorageError) as caught:
        S3Root("a-bucket", "prefix").check()
    told = str(caught.value)
    assert told.startswith("s3://a-bucket/prefix: ")
    assert "ter2" not in told
    assert "me:" not in told


@pytest.mark.parametrize("address", ["http://me:hun/ter2@127.0.0.1:9/b", "https://me:9/hun#ter2%40127.0.0.1%3A9/b"])
def test_an_error_that_nobody_has_foreseen_tells_no_password(address: str) -> None:
    for error in (ValueError(f"about {address}"), boto.ParamValidationError(report=address)):
        told = str(explained(error, "s3://bucket", "bucket", address, "put_object"))
        assert "127.0.0.1" in told
        assert "ter2" not in told
        assert "me:" not in told


@pytest.mark.usefixtures("impatient")
def test_what_is_no_s3_server_is_named(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_error(405)

        do_HEAD = do_PUT

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
        with pytest.raises(
            StorageError, match=f"no S3 server.*{server.server_port}|{server.server_port}.*no S3 server"
        ):
            S3Root(bucket.name, "prefix").check()
        server.shutdown()


# TLS.


@pytest.fixture
def tls(bucket: Bucket, seaweed: SeaweedServer, tmp_path: Path) -> Proxy:
    proxy = Proxy(seaweed.port)
    proxy.speak_tls(_certificate(tmp_path / "server.pem"))
    return proxy


@pytest.mark.usefixtures("impatient")
def test_a_certificate_is_verified(bucket: Bucket, tls: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with tls.running():
        monkeypatch.setenv("AWS_ENDPOINT_URL", tls.endpoint.replace("http", "https"))
        with pytest.raises(StorageError, match=r"is not trusted; name its authority's file in AWS_CA_BUNDLE"):
            S3Root(bucket.name, "prefix").check()
        monkeypatch.setenv("AWS_CA_BUNDLE", str(tmp_path / "server.pem"))
        place = S3Root(bucket.name, "prefix")
        assert "conditional puts honoured" in place.check()
        place.put("key", b"content")
        filesystem, path = place.filesystem()
        assert filesystem.get_file_info(f"{path}/key").size == 7


@pytest.mark.usefixtures("impatient")
def test_http_against_https_is_named(bucket: Bucket, tls: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    with tls.running():
        monkeypatch.setenv("AWS_ENDPOINT_URL", tls.endpoint)
        with pytest.raises(StorageError, match="may speak https"):
            S3Root(bucket.name, "prefix").check()


def _certificate(path: Path) -> Path:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    hour = datetime.timedelta(hours=1)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(now - hour).not_valid_after(now + hour)
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    builder = builder.add_extension(address, critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    certificate = builder.sign(key, hashes.SHA256())
    plain = serialization.NoEncryption()
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    path.write_bytes(private + certificate.public_bytes(serialization.Encoding.PEM))
    return path
