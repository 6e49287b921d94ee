import torch
from torch import nn


class Model(nn.Module):
    """Numbers and categories, every pair of their embeddings multiplied, a score in a dictionary."""

    def __init__(self, numbers, table_sizes, features, hidden):
        super().__init__()
        self.bottom = nn.Sequential(
            nn.Linear(numbers, hidden), nn.ReLU(), nn.Linear(hidden, features)
        )
        self.tables = nn.ModuleList(nn.Embedding(size, features) for size in table_sizes)
        count = len(table_sizes) + 1
        rows, columns = torch.tril_indices(count, count, offset=-1)
        self.register_buffer("rows", rows)
        self.register_buffer("columns", columns)
        pairs = count * (count - 1) // 2
        self.top = nn.Sequential(
            nn.Linear(features + pairs, hidden), nn.ReLU(), nn.Linear(hidden, 1)
        )

    def forward(self, dense, categories):
        dense = self.bottom(dense)
        looked_up = [table(categories[:, index]) for index, table in enumerate(self.tables)]
        together = torch.stack([dense, *looked_up], dim=1)
        products = torch.bmm(together, together.transpose(1, 2))
        pairs = products[:, self.rows, self.columns]
        logit = self.top(torch.cat((dense, pairs), dim=1)).squeeze(-1)
        return {"logit": logit, "probability": torch.sigmoid(logit)}


batch, numbers, features, hidden = 64, 13, 32, 96
table_sizes = [100, 400, 50, 1000, 250]


def get_inputs():
    categories = [torch.randint(0, size, (batch,)) for size in table_sizes]
    return [torch.rand(batch, numbers), torch.stack(categories, dim=1)]


def get_init_inputs():
    return [numbers, table_sizes, features, hidden]
