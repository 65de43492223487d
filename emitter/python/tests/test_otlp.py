from __future__ import annotations

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest, ExportLogsServiceResponse
from receiver import value_of

from rawoutput_emitter import otlp


@pytest.mark.parametrize(
    "value", ["", "text\u2028😀", b"", b"\xed\xa0\x80", True, False, 0, 127, 128, 300, 2**31, 2**63 - 1, -1, [], [0, 1, 2**40]]
)
def test_values(value: otlp.Value) -> None:
    request = ExportLogsServiceRequest.FromString(
        otlp.Envelope({}, "scope", "1").request([otlp.log_record("event", 5, {"key": value})])
    )
    (record,) = request.resource_logs[0].scope_logs[0].log_records
    assert [(pair.key, value_of(pair.value)) for pair in record.attributes] == [("key", value)]


def test_request() -> None:
    envelope = otlp.Envelope({"service.name": "a", "process.pid": "12"}, "scope", "1.2")
    request = ExportLogsServiceRequest.FromString(
        envelope.request([otlp.log_record("one", 2**64 - 1, {}), otlp.log_record("two", 1, {})])
    )
    (resource_logs,) = request.resource_logs
    assert [(a.key, value_of(a.value)) for a in resource_logs.resource.attributes] == [("service.name", "a"), ("process.pid", 12)]
    (scope_logs,) = resource_logs.scope_logs
    assert (scope_logs.scope.name, scope_logs.scope.version) == ("scope", "1.2")
    assert [(r.event_name, r.time_unix_nano, r.observed_time_unix_nano) for r in scope_logs.log_records] == [
        ("one", 2**64 - 1, 2**64 - 1),
        ("two", 1, 1),
    ]


def test_rejected_records() -> None:
    response = ExportLogsServiceResponse()
    assert otlp.rejected_records(response.SerializeToString()) == (0, "")
    response.partial_success.rejected_log_records = 300
    response.partial_success.error_message = "full"
    assert otlp.rejected_records(response.SerializeToString()) == (300, "full")


@pytest.mark.parametrize("garbage", [b"\xff" * 20, b"<html>", b"\x0a\x7f", b"{}", b"\x0a", b"\x08\x01", b"\x0a\x02\x0a\x00"])
def test_answers_that_are_none(garbage: bytes) -> None:
    assert otlp.rejected_records(garbage) == (0, "")
