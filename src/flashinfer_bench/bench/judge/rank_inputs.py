"""Inputs of several ranks: each has a seed of its own, and one that all share for what is replicated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flashinfer_bench.bench.seeds import call_seed, pools_seed, rank_key, subject_of
from flashinfer_bench.tensors.blobs import tensors_from_descriptor
from flashinfer_bench.tensors.generate import InputMaker
from flashinfer_bench.tensors.planned import plan_inputs, plan_outputs

if TYPE_CHECKING:
    from flashinfer_bench.data import Definition, Workload
    from flashinfer_bench.tensors.devices import Device


class RankInputs:
    """Makes the inputs of any rank's call again. What another rank is given does not follow from a rank's seeds.

    `files` is what `shared_files` made of the inputs that come from files: the same for all ranks.
    """

    def __init__(
        self,
        definition: Definition,
        workload: Workload,
        *,
        key: int,
        files: int | None,
        device: Device,
    ) -> None:
        self.count = definition.world_size or 1
        self.inputs = plan_inputs(definition, workload)
        self.outputs = plan_outputs(definition, workload)
        self._subject = subject_of(definition.name, workload.uuid)
        self._keys = [rank_key(key, rank) for rank in range(self.count)]
        self._shared_key = rank_key(key, None)
        stored = {} if files is None else tensors_from_descriptor(files, self.inputs)
        self._maker = InputMaker(self.inputs, device.torch_device, files=stored)
        self._at: tuple[int, int] | None = None

    def trial_seeds(self, rank: int, trial: int) -> tuple[int, int]:
        """Seeds of a trial's pools: a rank's own, and the shared one."""
        own = pools_seed(self._keys[rank], self._subject, trial)
        return own, pools_seed(self._shared_key, self._subject, trial)

    def call_seeds(self, rank: int, trial: int, call: int) -> tuple[int, int]:
        """Seeds of a call's windows and scales: a rank's own, and the shared one."""
        own = call_seed(self._keys[rank], self._subject, trial, call)
        return own, call_seed(self._shared_key, self._subject, trial, call)

    def inputs_of(self, rank: int, trial: int, call: int, count: int = 1) -> list[list[Any]]:
        """Make the input sets of one rank's sample; valid until the next time this is called."""
        if self._at != (rank, trial):
            own, shared = self.trial_seeds(rank, trial)
            self._maker.open_trial(own, shared_seed=shared)
            self._at = rank, trial
        own, shared = self.call_seeds(rank, trial, call)
        return self._maker.prepare(own, count, shared_seed=shared)
