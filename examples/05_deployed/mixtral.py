"""A small mixture of experts of transformers with random weights, whose norms are functions that apply answers."""

from torch import nn
from transformers import MixtralConfig, MixtralForCausalLM
from transformers.models.mixtral.modeling_mixtral import MixtralRMSNorm
from widths import IS_REAL, SIZES, rms_norm


class RMSNorm(MixtralRMSNorm):
    def forward(self, x):
        return rms_norm(x, self.weight)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        config = MixtralConfig(**SIZES, num_local_experts=4, num_experts_per_tok=2)
        self.model = MixtralForCausalLM(config)
        # The loop over experts breaks graphs; a batch gathers the weights of every token, too much at real widths.
        self.model.set_experts_implementation("grouped_mm" if IS_REAL else "batched_mm")
        for each in self.model.modules():
            each.__class__ = {MixtralRMSNorm: RMSNorm}.get(type(each), type(each))
