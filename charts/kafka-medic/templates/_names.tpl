{{- define "kafka-medic.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* Cluster-wide objects use this name too, with suffixes of up to 13 characters. */}}
{{- define "kafka-medic.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains (include "kafka-medic.name" .) .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "kafka-medic.name" .) | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "kafka-medic.selectorLabels" -}}
app.kubernetes.io/name: {{ include "kafka-medic.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* Of (root, component). */}}
{{- define "kafka-medic.labels" -}}
{{- with .root -}}
{{ include "kafka-medic.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: kafka-medic
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- range $key, $value := .Values.commonLabels }}
{{ $key }}: {{ $value | quote }}
{{- end }}
{{- end }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{/* Labels of check Pods, which the selectors of Deployment, Service and PodDisruptionBudget must not match. */}}
{{- define "kafka-medic.checkLabels" -}}
app.kubernetes.io/name: {{ include "kafka-medic.name" . }}-check
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/part-of: kafka-medic
app.kubernetes.io/component: check
{{- end -}}

{{- define "kafka-medic.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "kafka-medic.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- required "serviceAccount.name is needed when serviceAccount.create is false" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* Of (image, version of the chart). */}}
{{- define "kafka-medic.imageName" -}}
{{- if .image.digest -}}
{{- printf "%s@%s" .image.repository .image.digest -}}
{{- else -}}
{{- printf "%s:%s" .image.repository (default .version .image.tag) -}}
{{- end -}}
{{- end -}}

{{- define "kafka-medic.image" -}}
{{- include "kafka-medic.imageName" (dict "image" .Values.image "version" .Chart.AppVersion) -}}
{{- end -}}

{{/* The operator's user name, and those of values.admission.operatorUsers, as a CEL list. */}}
{{- define "kafka-medic.operators" -}}
{{- $own := printf "system:serviceaccount:%s:%s" .Release.Namespace (include "kafka-medic.serviceAccountName" .) -}}
{{- $quoted := list -}}
{{- range prepend .Values.admission.operatorUsers $own -}}
{{- $quoted = append $quoted (printf "'%s'" .) -}}
{{- end -}}
[{{ join ", " $quoted }}]
{{- end -}}

{{- define "kafka-medic.plannerSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "kafka-medic.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{/* Rights to restart brokers, of (strimzi, names). Without names: every Pod. */}}
{{- define "kafka-medic.restarts" -}}
# Approved restarts of brokers. An eviction respects the Pod's PodDisruptionBudget.
- apiGroups: [""]
  resources: [pods/eviction]
  {{- with .names }}
  resourceNames:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  verbs: [create]
{{- if .strimzi }}
# Only the annotation at which Strimzi restarts a broker: the policy rights-DIGEST.kafkamedic.dev enforces this.
- apiGroups: [""]
  resources: [pods]
  {{- with .names }}
  resourceNames:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  verbs: [patch]
# Only the operator's own annotation, which triggers a reconcile of Strimzi: the same policy enforces this.
- apiGroups: [kafka.strimzi.io]
  resources: [kafkas]
  verbs: [patch]
{{- end }}
{{- end -}}

{{/*
Helm looks up every kind of a release before it creates anything, and so rejects Playbooks beside the definition of their kind.
The first install therefore creates Playbooks in hooks, once the API server serves the definitions. Their annotations make them
part of the release at the next upgrade. Empty: the kind exists, or the chart does not install it.
*/}}
{{- define "kafka-medic.firstInstall" -}}
{{- if and .Values.crds.enabled (not (.Capabilities.APIVersions.Has "kafkamedic.dev/v1alpha1/Playbook")) -}}
true
{{- end -}}
{{- end -}}

{{- define "kafka-medic.adoptedHook" -}}
meta.helm.sh/release-name: {{ .Release.Name }}
meta.helm.sh/release-namespace: {{ .Release.Namespace }}
helm.sh/hook: post-install
helm.sh/hook-weight: "1"
helm.sh/hook-delete-policy: before-hook-creation
{{- end -}}
