{{/* Of the values networkPolicy. */}}
{{- define "kafka-medic.toNameServers" -}}
- ports:
    {{- range .dnsPorts }}
    - {protocol: UDP, port: {{ . }}}
    - {protocol: TCP, port: {{ . }}}
    {{- end }}
  to:
    {{- if .dnsTo }}
    {{- toYaml .dnsTo | nindent 4 }}
    {{- else }}
    - namespaceSelector:
        matchLabels:
          kubernetes.io/metadata.name: kube-system
    # The DNS cache on each node.
    - ipBlock:
        cidr: 169.254.20.10/32
    {{- end }}
{{- end -}}

{{/* Of the values networkPolicy. */}}
{{- define "kafka-medic.toApiServer" -}}
- ports:
    {{- range .apiServer.ports }}
    - {protocol: TCP, port: {{ . }}}
    {{- end }}
  {{- with .apiServer.cidrs }}
  to:
    {{- range . }}
    - ipBlock:
        cidr: {{ . | quote }}
    {{- end }}
  {{- end }}
{{- end -}}

{{- define "kafka-medic.sparkPods" -}}
- key: app.kubernetes.io/instance
  operator: In
  values: [{{ .Release.Name }}]
- key: app.kubernetes.io/name
  operator: In
  values: [{{ include "kafka-medic.name" . }}-planner, {{ include "kafka-medic.name" . }}-executor]
{{- end -}}
