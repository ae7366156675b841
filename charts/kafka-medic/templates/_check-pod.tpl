{{/* The spec of a Pod that checks the installation with the operator's own rights, of (root, arguments). */}}
{{- define "kafka-medic.checkPod" -}}
{{- $root := .root -}}
serviceAccountName: {{ include "kafka-medic.serviceAccountName" $root }}
automountServiceAccountToken: true
enableServiceLinks: false
{{- with $root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $root.Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $root.Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $root.Values.hostAliases }}
hostAliases:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  seccompProfile:
    type: RuntimeDefault
containers:
  - name: check
    image: {{ include "kafka-medic.image" $root }}
    imagePullPolicy: {{ $root.Values.image.pullPolicy }}
    command: [python, -m, kafka_medic.controller.installed]
    args:
      {{- range .arguments }}
      - {{ . | quote }}
      {{- end }}
      - --rules=/etc/kafka-medic/rules/rules.json
    {{- with $root.Values.extraEnv }}
    env:
      {{- toYaml . | nindent 6 }}
    {{- end }}
    securityContext:
      {{- include "kafka-medic.containerSecurity" $root | nindent 6 }}
    resources:
      requests:
        cpu: 50m
        memory: 96Mi
        ephemeral-storage: 16Mi
      limits:
        memory: 256Mi
        ephemeral-storage: 64Mi
    volumeMounts:
      - name: rules
        mountPath: /etc/kafka-medic/rules
        readOnly: true
volumes:
  - name: rules
    configMap:
      name: {{ include "kafka-medic.fullname" $root }}-rules
{{- end -}}
