"""`kafka-medic remediation`, which is `kubectl kafka-medic` too: what people read, approve and stop runs with.

Everything goes through the API server as the person who types it: their kubeconfig, their rights. The command decides
nothing that counts. The operator and the admission policies check everything again; an early refusal here names the way
out."""
