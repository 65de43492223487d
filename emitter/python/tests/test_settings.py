from __future__ import annotations

import logging
import os

import pytest

from rawoutput_emitter import Settings

ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}


def settings(**variables: str) -> Settings:
    found = Settings.from_environment({**ENDPOINT, **variables})
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("variables", "endpoint"),
    [
        (ENDPOINT, "http://collector:4318/v1/logs"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "https://collector/tenant/"}, "https://collector/tenant/v1/logs"),
        ({**ENDPOINT, "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": "http://logs:1/in"}, "http://logs:1/in"),
        ({**ENDPOINT, "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": " "}, "http://collector:4318/v1/logs"),
        ({**ENDPOINT, "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": "logs:4318"}, "http://collector:4318/v1/logs"),
    ],
)
def test_endpoint(variables: dict[str, str], endpoint: str) -> None:
    found = Settings.from_environment(variables)
    assert found is not None and found.endpoint == endpoint


@pytest.mark.parametrize("value", ["", "collector:4318", "ftp://collector", "http://", "http://collector:port"])
def test_no_endpoint(value: str) -> None:
    assert Settings.from_environment({"OTEL_EXPORTER_OTLP_ENDPOINT": value}) is None


def test_headers() -> None:
    assert settings().headers == {}
    found = settings(OTEL_EXPORTER_OTLP_HEADERS="authorization=Bearer%20a%3D, x-tenant = 7 ")
    assert found.headers == {"authorization": "Bearer a=", "x-tenant": "7"}
    found = settings(OTEL_EXPORTER_OTLP_HEADERS="a=1", OTEL_EXPORTER_OTLP_LOGS_HEADERS="b=2")
    assert found.headers == {"b": "2"}


def test_timeout() -> None:
    assert settings().timeout == 10
    assert settings(OTEL_EXPORTER_OTLP_TIMEOUT="2500").timeout == 2.5
    assert settings(OTEL_EXPORTER_OTLP_TIMEOUT="2500", OTEL_EXPORTER_OTLP_LOGS_TIMEOUT="100").timeout == 0.1


def test_certificate(tmp_path: os.PathLike[str]) -> None:
    file = os.path.join(tmp_path, "ca.pem")
    open(file, "w").close()
    assert settings().certificate is None
    assert settings(OTEL_EXPORTER_OTLP_CERTIFICATE=file).certificate == file
    assert settings(OTEL_EXPORTER_OTLP_CERTIFICATE="/no/such", OTEL_EXPORTER_OTLP_LOGS_CERTIFICATE=file).certificate == file


def test_resource() -> None:
    found = settings(OTEL_RESOURCE_ATTRIBUTES="service.name=a,service.namespace=chat%20bots,service.instance.id=1", OTEL_SERVICE_NAME="b")
    resource = found.full_resource()
    assert resource["service.name"] == "b"
    assert resource["service.namespace"] == "chat bots"
    assert resource["process.pid"] == str(os.getpid())
    assert resource["host.name"]
    assert len(resource["service.instance.id"]) == 36, "one that outlives the process would make two outputs one"
    assert resource["service.instance.id"] != found.full_resource()["service.instance.id"]


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", "secret"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "secret"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "a=secret%0Ax: y"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "secret"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "-1"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "nan"),
        ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/secret"),
        ("OTEL_RESOURCE_ATTRIBUTES", "secret"),
    ],
)
def test_bad_values(variable: str, value: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert settings(**{variable: value}) == settings()
    assert len(caplog.records) == 1
    assert variable in caplog.text
    assert "secret" not in caplog.text
