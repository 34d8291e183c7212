{{/* Labels that select the pods of this release. */}}
{{- define "agent.selector" -}}
app.kubernetes.io/name: allocator-agent
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* Labels of every object. */}}
{{- define "agent.labels" -}}
{{ include "agent.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{/* Rights hold for the whole cluster, so their objects are named after namespace and release. */}}
{{- define "agent.clusterName" -}}
{{ .Release.Namespace }}-{{ .Release.Name }}
{{- end }}

{{- define "agent.account" -}}
{{ .Values.serviceAccount.name | default .Release.Name }}
{{- end }}

{{- define "agent.image" -}}
{{- with .Values.image }}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end }}

{{/* The agent's configuration file. In a pod it finds the API server and its token by itself. */}}
{{- define "agent.configuration" -}}
[service]
url = {{ .Values.service.url }}
pool = {{ .Values.service.pool }}
{{- if .Values.service.caConfigMap }}
ca_file = /authority/ca.crt
{{- end }}
[agent]
name = {{ .Values.agent.name | default .Release.Name }}
scheduler = {{ .Values.agent.scheduler }}
register_tenants = {{ .Values.agent.registerTenants | ternary "yes" "no" }}
gangs = {{ .Values.agent.gangs | ternary "yes" "no" }}
reclaim = {{ .Values.agent.reclaim }}
[kubernetes]
class_label = {{ .Values.kubernetes.classLabel }}
owner_label = {{ .Values.kubernetes.ownerLabel }}
quotas = {{ .Values.kubernetes.quotas }}
[accounts]
{{- range $namespace, $tenant := .Values.accounts }}
{{ $namespace }} = {{ $tenant }}
{{- end }}
{{- end }}

{{/* A pod that runs the agent, from `root`, `arguments` and `restart`. */}}
{{- define "agent.podSpec" -}}
{{- $values := .root.Values }}
serviceAccountName: {{ include "agent.account" .root | quote }}
restartPolicy: {{ .restart }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  seccompProfile: {type: RuntimeDefault}
{{- with $values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- range $key := list "nodeSelector" "tolerations" "affinity" }}
{{- with index $values $key }}
{{ $key }}:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
containers:
  - name: agent
    image: {{ include "agent.image" .root | quote }}
    imagePullPolicy: {{ $values.image.pullPolicy }}
    command: {{ concat (list "allocator-agent" "--config" "/configuration/agent.ini") .arguments | toJson }}
    env:
      - name: ALLOCATOR_KEY
        valueFrom: {secretKeyRef: {name: {{ $values.service.existingSecret | quote }}, key: key}}
    resources:
      {{- toYaml $values.resources | nindent 6 }}
    securityContext:
      allowPrivilegeEscalation: false
      readOnlyRootFilesystem: true
      capabilities: {drop: [ALL]}
    volumeMounts:
      - {name: configuration, mountPath: /configuration, readOnly: true}
      {{- if $values.service.caConfigMap }}
      - {name: authority, mountPath: /authority, readOnly: true}
      {{- end }}
volumes:
  - {name: configuration, configMap: {name: {{ .root.Release.Name }}}}
  {{- with $values.service.caConfigMap }}
  - {name: authority, configMap: {name: {{ . | quote }}}}
  {{- end }}
{{- end }}
