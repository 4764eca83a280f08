"""DeepFilterNet3: speech out of noise, as it comes, in constant memory.

Schröter et al. 2023, "DeepFilterNet: Perceptually Motivated Real-Time Speech Enhancement", arXiv 2305.08227. Sound goes
through `frames` (spectra), `features`, `network`, `filtering` (spectra again) and back; `enhancer` joins them.
"""
