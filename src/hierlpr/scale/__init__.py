"""The same pipeline over partitions: larger than memory, many machines, nothing lost.

source -> partitions -> partial results in one work folder -> merge. What users call is in
`hierlpr.workflows`.
"""
