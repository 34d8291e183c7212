{{/* The labels by which an object of this release is found; for those of a process, its name is added. */}}
{{- define "allocator.selector" -}}
app.kubernetes.io/name: allocator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* The labels of every object. */}}
{{- define "allocator.labels" -}}
{{ include "allocator.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{/*
Objects are named after the release: all of a kind are called so, or all have something after it, so no two
releases of a namespace share one. Helm also takes names
that no Service may have; the API server would refuse that one when the others are made already.
*/}}
{{- define "allocator.name" -}}
{{- if not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" .Release.Name) }}
{{- fail (printf "the release is called %q; objects are named after it: begin with a letter, and use a to z, digits and dashes" .Release.Name) }}
{{- end }}
{{- .Release.Name }}
{{- end }}

{{- define "allocator.image" -}}
{{- with .Values.image }}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end }}

{{- define "allocator.hosts" -}}
{{ prepend .Values.hosts "localhost" | join "," }}
{{- end }}

{{/* The variables that are no secrets, as a document of texts. */}}
{{- define "allocator.configuration" -}}
{{- $origins := list }}
{{- range .Values.hosts }}{{ $origins = append $origins (printf "https://%s" .) }}{{ end }}
{{- $found := dict
  "DJANGO_SETTINGS_MODULE" "allocator_service.settings.production"
  "ALLOWED_HOSTS" (include "allocator.hosts" .)
  "CSRF_TRUSTED_ORIGINS" (join "," $origins) }}
{{- range $name, $value := .Values.configuration }}
{{- $_ := set $found $name (kindIs "string" $value | ternary $value (toJson $value)) }}
{{- end }}
{{- toYaml $found }}
{{- end }}

{{/* The keys of `pods`, each replaced by that of `own`, which a process or the migration has. */}}
{{- define "allocator.settings" -}}
{{- $found := dict }}
{{- range $key, $value := .root.Values.pods }}{{ $_ := set $found $key $value }}{{ end }}
{{- range $key, $value := .own }}{{ $_ := set $found $key $value }}{{ end }}
{{- toYaml $found }}
{{- end }}

{{/*
The metadata of a pod's template, from `root`, `component`, `settings` and `annotations`. The chart's own
labels and annotations win: selectors and the rolling of changed pods hang on them.
*/}}
{{- define "allocator.podMetadata" -}}
labels:
  {{- range $name, $value := omit .settings.labels "app.kubernetes.io/name" "app.kubernetes.io/instance" "app.kubernetes.io/component" }}
  {{ $name | quote }}: {{ $value | quote }}
  {{- end }}
  {{- include "allocator.selector" .root | nindent 2 }}
  app.kubernetes.io/component: {{ .component }}
{{- with merge (dict) .annotations .settings.annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* What every pod has besides its containers, from `root`, `component` and `settings`. */}}
{{- define "allocator.podSpec" -}}
automountServiceAccountToken: false
{{- with .account }}
serviceAccountName: {{ . | quote }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  seccompProfile: {type: RuntimeDefault}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .settings.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- range $key := list "nodeSelector" "tolerations" "affinity" }}
{{- with index $.settings $key }}
{{ $key }}:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- with .settings.topologySpreadConstraints }}
topologySpreadConstraints:
  {{- range . }}
  - {{- toYaml . | nindent 4 }}
    {{- if not .labelSelector }}
    labelSelector:
      matchLabels:
        {{- include "allocator.selector" $.root | nindent 8 }}
        app.kubernetes.io/component: {{ $.component }}
    {{- end }}
  {{- end }}
{{- end }}
{{- end }}

{{/* What every container has besides its command and its environment, from `root` and `settings`. */}}
{{- define "allocator.container" -}}
image: {{ include "allocator.image" .root | quote }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
resources:
  {{- toYaml .settings.resources | nindent 2 }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}

{{/* What a container writes to, from `settings` and `metrics`: its temporary files, and web's counters. */}}
{{- define "allocator.volumeMounts" -}}
- {name: temporary, mountPath: /tmp}
{{- if .metrics }}
- {name: metrics, mountPath: /run/metrics}
{{- end }}
{{- with .settings.volumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "allocator.volumes" -}}
- {name: temporary, emptyDir: {sizeLimit: 4Gi}}
{{- if .metrics }}
- {name: metrics, emptyDir: {medium: Memory, sizeLimit: 64Mi}}
{{- end }}
{{- with .settings.volumes }}
{{ toYaml . }}
{{- end }}
{{- end }}
