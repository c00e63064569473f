"""The paper and its competitors: algorithms as printed, baselines, simulations, studies."""
