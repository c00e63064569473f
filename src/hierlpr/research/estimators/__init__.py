"""Estimators of local precision rates that studies compare: the paper's and a density ratio.

`hierlpr.lpr.fit_lpr` knows them by name and loads them when they are asked for.
"""
