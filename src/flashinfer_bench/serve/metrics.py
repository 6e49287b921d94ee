"""Figures of the service, as Prometheus reads them (prometheus.io/docs/instrumenting/exposition_formats)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from flashinfer_bench.serve.service import Service


def metrics_text(service: Service) -> str:
    """Write what waits, who works and how tasks ended; nothing of it names a tenant."""
    counts, health = service.queue.counts(), service.health()
    healthy = sum(worker.healthy for worker in health.workers)
    families = (
        _family(
            "queue_batches",
            "gauge",
            "Batches that wait, by the hardware asked for.",
            [({"hardware": row["hardware"]}, row["count"]) for row in counts["waiting"]],
        ),
        _family(
            "queue_oldest_seconds",
            "gauge",
            "How long the oldest has waited.",
            [({}, counts["oldest_s"])],
        ),
        _family("leases", "gauge", "Batches that are worked at.", [({}, counts["leased"])]),
        _family(
            "tasks_ended_total",
            "counter",
            "Tasks that have ended, by how.",
            [({"outcome": row["outcome"]}, row["count"]) for row in counts["outcomes"]],
        ),
        _family(
            "device_seconds_total",
            "counter",
            "Time that devices were held.",
            [({}, counts["device_s"])],
        ),
        _family(
            "workers",
            "gauge",
            "Workers, by whether they get work.",
            [
                ({"healthy": "true"}, healthy),
                ({"healthy": "false"}, len(health.workers) - healthy),
            ],
        ),
    )
    return "".join(families)


def _family(
    name: str, kind: str, meaning: str, samples: Iterable[tuple[dict[str, str], float]]
) -> str:
    r"""Write one family.

    >>> _family("leases", "gauge", "Held.", [({}, 2), ({"a": 'b"'}, 0.5)]).splitlines()[2:]
    ['flashinfer_bench_leases 2', 'flashinfer_bench_leases{a="b\\""} 0.5']
    """
    full = f"flashinfer_bench_{name}"
    lines = [f"# HELP {full} {meaning}", f"# TYPE {full} {kind}"]
    lines += [f"{full}{_labels(labels)} {value:.15g}" for labels, value in samples]
    return "\n".join(lines) + "\n"


def _labels(labels: dict[str, str]) -> str:
    written = ",".join(f'{key}="{_escaped(value)}"' for key, value in labels.items())
    return f"{{{written}}}" if written else ""


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
