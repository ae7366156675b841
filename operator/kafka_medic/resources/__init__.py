"""The custom resources' types: what is read from and written to the Kubernetes API goes through them.

Pure: no clock, no input or output, no client. `crds/` is generated from them
(`kafka_medic.resources.generate`).
"""
