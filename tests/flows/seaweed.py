"""The S3-compatible server of the tests, and buckets in it as a client sees them that has nothing of the product."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

from selfcheck.seaweed import ADMIN, DOMAIN, READER, REGION, SeaweedServer, free_ports

__all__ = ["ADMIN", "DOMAIN", "READER", "REGION", "Bucket", "SeaweedServer", "free_ports"]


@dataclass(frozen=True)
class Bucket:
    """A bucket, seen by a client that has nothing of the product in it: what it sees is what is stored.

    Attributes:
        name: the bucket's name.
        client: boto3's client.
    """

    name: str
    client: Any

    @classmethod
    def new(cls, server: SeaweedServer) -> Bucket:
        name, client = f"bucket-{uuid.uuid4().hex}", server.client()
        client.create_bucket(Bucket=name)
        return cls(name, client)

    def contents(self) -> dict[str, bytes]:
        """Give everything that is stored, and see that a key is listed once."""
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.name)
        keys = [found["Key"] for page in pages for found in page.get("Contents", ())]
        assert len(keys) == len(set(keys))
        return {key: self.client.get_object(Bucket=self.name, Key=key)["Body"].read() for key in keys}

    def remove(self) -> None:
        """Remove the bucket with all that it holds: a server has room for a few dozen of them at a time."""
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.name)
        for page in pages:
            for found in page.get("Contents", ()):
                self.client.delete_object(Bucket=self.name, Key=found["Key"])
        for begun in self.client.list_multipart_uploads(Bucket=self.name).get("Uploads", ()):
            self.client.abort_multipart_upload(Bucket=self.name, Key=begun["Key"], UploadId=begun["UploadId"])
        self.client.delete_bucket(Bucket=self.name)

    def put(self, key: str, content: bytes) -> None:
        self.client.put_object(Bucket=self.name, Key=key, Body=content)

    def begun_uploads(self) -> list[str]:
        """Give the keys of multipart uploads that were neither completed nor aborted."""
        found = self.client.list_multipart_uploads(Bucket=self.name).get("Uploads", ())
        return [each["Key"] for each in found]
