"""What an error of S3-compatible storage means: try again, renew the credentials, or tell the user in one line."""

from __future__ import annotations

import email.utils
import re
import time
from collections.abc import Mapping
from enum import Enum
from typing import Any
from urllib.parse import urlsplit

import boto3.exceptions
from botocore import exceptions as boto
from botocore.parsers import ResponseParserError

from flows.redaction import without_secrets
from flows.storage import StorageError

_AGAIN = frozenset(
    [
        "BadDigest",
        "BandwidthLimitExceeded",
        "ConditionalRequestConflict",
        "IncompleteBody",
        "InternalError",
        "OperationAborted",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestTimeout",
        "ServiceUnavailable",
        "SlowDown",
        "ThrottledException",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
        "XAmzContentSHA256Mismatch",
    ]
)
_CREDENTIALS = frozenset(
    [
        "AuthFailure",
        "ExpiredToken",
        "ExpiredTokenException",
        "InvalidAccessKeyId",
        "InvalidClientTokenId",
        "InvalidToken",
        "RequestExpired",
        "SignatureDoesNotMatch",
        "TokenRefreshRequired",
        "UnrecognizedClientException",
    ]
)
_NOT_TLS = (
    "WRONG_VERSION_NUMBER",
    "RECORD_LAYER_FAILURE",
    "UNKNOWN_PROTOCOL",
    "HTTP_REQUEST",
    "PACKET_LENGTH_TOO_LONG",
)
# What boto3 and Python say of an address quotes parts of it, of a password too.
_NO_ADDRESS = ("Invalid endpoint", "IPv", "netloc", "Port could not be cast", "Port out of range")
FAULTS = (boto.BotoCoreError, boto.ClientError, boto3.exceptions.Boto3Error, ResponseParserError, ValueError, OSError)
"""What boto3 raises; anything else is a mistake in this project."""

_NO_ANSWER = (boto.HTTPClientError, boto.ConnectionError, boto.IncompleteReadError, ConnectionError)
_NO_CREDENTIALS = (
    boto.NoCredentialsError,
    boto.PartialCredentialsError,
    boto.CredentialRetrievalError,
    boto.ProfileNotFound,
    boto.SSOError,
    boto.MetadataRetrievalError,
)


class Verdict(Enum):
    """What to do about an error."""

    AGAIN = "try again"
    RENEW = "read the credentials again"
    GIVE_UP = "give up"


def verdict(error: Exception) -> Verdict:
    """Tell what to do about an error of boto3.

    Args:
        error: what a call raised.

    Returns:
        What may help.
    """
    status, code = status_of(error), code_of(error)
    if code in _CREDENTIALS:
        return Verdict.RENEW
    if code in _AGAIN or status in {408, 409, 429} or (status is not None and status >= 500 and status != 501):
        return Verdict.AGAIN
    if isinstance(error, boto.SSLError):
        # A server that dies in the handshake may be back in a moment; another protocol or authority stays.
        return Verdict.GIVE_UP if _tls_fault(error) else Verdict.AGAIN
    if isinstance(error, _NO_ANSWER) and not isinstance(error, boto.ProxyConnectionError):
        return Verdict.AGAIN
    return Verdict.GIVE_UP


def status_of(error: Exception) -> int | None:
    """Give the HTTP status of an error's answer; None where there was none."""
    found = _answer(error).get("HTTPStatusCode")
    return int(found) if found is not None else None


def code_of(error: Exception) -> str:
    """Give the server's name of an error; empty where the answer had none, as those to HEAD."""
    code = str(_response(error).get("Error", {}).get("Code", ""))
    return "" if code.isdecimal() else code


def retry_after_s(error: Exception) -> float:
    """Give the seconds for which a server asked to be left alone; 0 where it did not ask."""
    text = _answer(error).get("HTTPHeaders", {}).get("retry-after", "")
    if text.isdecimal():
        return float(text)
    date = email.utils.parsedate_tz(text)
    return max(0.0, email.utils.mktime_tz(date) - time.time()) if date else 0.0


def skew_s(headers: Mapping[str, str]) -> float | None:
    """Tell by how many seconds this machine's clock is ahead of an answer's Date; None where it has none."""
    date = email.utils.parsedate_tz(headers.get("date", ""))
    return time.time() - email.utils.mktime_tz(date) if date else None


def explained(error: Exception, address: str, bucket: str, endpoint: str, operation: str) -> StorageError:
    """Turn an error of boto3 into a line for the user.

    Args:
        error: what a call raised.
        address: the root.
        bucket: its bucket.
        endpoint: the server's address; what is secret in it is left out.
        operation: the call, such as ``put_object``.

    Returns:
        The error, with what it is, where, and how to mend it.
    """
    endpoint = re.split(r"[?#]", without_secrets(endpoint))[0]
    status, code = status_of(error), code_of(error)
    refused = status is not None
    text = _refusal(error, bucket, endpoint, operation) if refused else _failure(error, endpoint)
    again = verdict(error) is Verdict.AGAIN
    return StorageError(f"{address}: {text}", status=status, code=code, away=again)


def _refusal(error: Exception, bucket: str, endpoint: str, operation: str) -> str:
    status, code = status_of(error), code_of(error)
    headers = _answer(error).get("HTTPHeaders", {})
    said = " ".join(str(_response(error).get("Error", {}).get("Message", "")).split())
    if code == "RequestTimeTooSkewed":
        skew = skew_s(headers)
        by = f"{abs(skew) / 60:.0f} min {'ahead of' if skew > 0 else 'behind'}" if skew is not None else "far from"
        return f"this machine's clock is {by} the server's at {endpoint}; set the clock, such as by NTP"
    if code == "NoSuchBucket":
        return f"there is no bucket {bucket} at {endpoint}; make it, or name another"
    if code in {"InvalidAccessKeyId", "InvalidClientTokenId"}:
        return (
            f"the access key is not known at {endpoint}; check AWS_PROFILE or AWS_ACCESS_KEY_ID, and AWS_ENDPOINT_URL"
        )
    if code == "SignatureDoesNotMatch":
        return f"the secret key does not fit the access key at {endpoint}; check AWS_PROFILE or AWS_SECRET_ACCESS_KEY"
    if code in _CREDENTIALS:
        return f"the credentials have expired ({code}); renew them, such as by aws sso login or a new AWS_SESSION_TOKEN"
    if status == 403:
        right = _RIGHTS.get(operation, "the right")
        return (
            f"no permission, {right} is missing on bucket {bucket} at {endpoint}; grant it, or take other credentials"
        )
    if status in {301, 307} or code == "AuthorizationHeaderMalformed":
        region = headers.get("x-amz-bucket-region")
        return f"bucket {bucket} is in another region; set AWS_DEFAULT_REGION to {region or 'its own'}"
    if status == 400 and "HTTPS" in said:
        return f"{endpoint} speaks https; write https:// in AWS_ENDPOINT_URL"
    if status == 404 and not code:
        return f"there is no bucket {bucket}, or no S3 server, at {endpoint}; check both names, and AWS_ENDPOINT_URL"
    if not code:
        return f"status {status} from {endpoint} ({said[:200]}), which may be no S3 server; check AWS_ENDPOINT_URL"
    return f"{code}, status {status}, from {endpoint} ({said[:200]})"


def _failure(error: Exception, endpoint: str) -> str:
    if isinstance(error, _NO_CREDENTIALS):
        return "no credentials are found; set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
    if isinstance(error, boto.SSLError):
        fault = _tls_fault(error)
        if fault == "http":
            return (
                f"{endpoint} does not speak https; write http:// in AWS_ENDPOINT_URL if that server is to be trusted so"
            )
        if fault:
            return f"the certificate of {endpoint} is not trusted; name its authority's file in AWS_CA_BUNDLE"
    if isinstance(error, ResponseParserError):
        return f"what answers at {endpoint} is no S3 server; check AWS_ENDPOINT_URL"
    if isinstance(error, _NO_ANSWER):
        plain = f" ({endpoint} may speak https)" if urlsplit(endpoint).scheme == "http" and _closed(error) else ""
        return f"no answer from {endpoint}{plain}; check the network and AWS_ENDPOINT_URL"
    if isinstance(error, boto.EndpointResolutionError) or any(words in str(error) for words in _NO_ADDRESS):
        return "AWS_ENDPOINT_URL is no address; write it as https://host or http://host:port"
    said = " ".join(without_secrets(str(error)).split())[:200]
    if isinstance(error, (boto.ParamValidationError, boto.InvalidRegionError)):
        return said
    return f"{type(error).__name__} at {endpoint} ({said})"


_RIGHTS = {
    "put_object": "s3:PutObject",
    "create_multipart_upload": "s3:PutObject",
    "upload_part": "s3:PutObject",
    "complete_multipart_upload": "s3:PutObject",
    "delete_object": "s3:DeleteObject",
    "list_objects_v2": "s3:ListBucket",
    "get_object": "s3:GetObject",
    "head_object": "s3:GetObject",
}


def _answer(error: Exception) -> dict[str, Any]:
    found: dict[str, Any] = _response(error).get("ResponseMetadata", {})
    return found


def _response(error: Exception) -> dict[str, Any]:
    # Some errors have the attribute and nothing in it.
    return getattr(error, "response", None) or {}


def _tls_fault(error: Exception) -> str:
    text = str(error).upper()
    if any(name in text for name in _NOT_TLS) or any(name.replace("_", " ") in text for name in _NOT_TLS):
        return "http"
    return "certificate" if "CERTIFICATE" in text or "HOSTNAME" in text else ""


def _closed(error: Exception) -> bool:
    return isinstance(error, boto.ConnectionClosedError | boto.ResponseStreamingError)
