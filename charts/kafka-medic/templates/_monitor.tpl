{{/* Of (root, monitor): namespace, labels and annotations of an object that the Prometheus Operator reads. */}}
{{- define "kafka-medic.monitorMeta" -}}
namespace: {{ default .root.Release.Namespace .monitor.namespace }}
labels:
  {{- include "kafka-medic.labels" (dict "root" .root "component" "monitoring") | nindent 2 }}
  {{- with .monitor.labels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with .monitor.annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "kafka-medic.monitorLimits" -}}
{{- with .jobLabel }}
jobLabel: {{ . }}
{{- end }}
{{- with .sampleLimit }}
sampleLimit: {{ . }}
{{- end }}
{{- end -}}

{{- define "kafka-medic.endpoint" -}}
port: metrics
path: /metrics
scheme: http
interval: {{ .interval }}
{{- with .scrapeTimeout }}
scrapeTimeout: {{ . }}
{{- end }}
# Keeps the metrics' own label namespace: the KafkaCluster's.
honorLabels: true
{{- with .relabelings }}
relabelings:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .metricRelabelings }}
metricRelabelings:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}
