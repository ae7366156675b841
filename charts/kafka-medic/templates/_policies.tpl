{{/*
The specs of the ValidatingAdmissionPolicies, by subject. admission.yaml installs them. rules.yaml hands them to the operator,
which compares them with those of the API server. A policy's name ends in the digest of its spec. So a policy that was never
edited has had this spec since its creation.
*/}}
{{- define "kafka-medic.policies" -}}
{{- $operators := include "kafka-medic.operators" . }}
{{- $most := 16 }}
# Who may create an approval, and in whose name.
approvals:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
      - apiGroups: [kafkamedic.dev]
        apiVersions: ["*"]
        operations: [CREATE, UPDATE]
        resources: [remediationapprovals]
  variables:
    - name: operators
      expression: {{ $operators | quote }}
  validations:
    - expression: >-
        request.operation != 'CREATE' || !(request.userInfo.username in variables.operators)
      message: the operator may not approve or reject a plan; a person must create the RemediationApproval
      reason: Forbidden
    - expression: >-
        request.operation != 'CREATE' || authorizer.group('kafkamedic.dev').resource('remediations')
        .namespace(request.namespace).name(object.spec.remediationRef.name).check('approve').allowed()
      messageExpression: >-
        'user ' + request.userInfo.username + ' may not decide on Remediation ' + object.spec.remediationRef.name
        + ' in namespace ' + request.namespace + '; you need the verb approve on remediations: ask for a RoleBinding to'
        + ' ClusterRole {{ include "kafka-medic.fullname" . }}-approver'
      message: to decide on a Remediation, you need the verb approve on remediations
      reason: Forbidden
    - expression: >-
        request.operation != 'CREATE' || object.spec.approver == request.userInfo.username
      messageExpression: >-
        'spec.approver must be your own user name, ' + request.userInfo.username + ', not ' + object.spec.approver
      message: spec.approver must be your own user name
      reason: Forbidden
    # The operator checks the approver's rights with these groups.
    - expression: >-
        request.operation != 'CREATE' || !has(object.spec.approverGroups) || has(request.userInfo.groups)
        && object.spec.approverGroups.all(g, g in request.userInfo.groups)
      messageExpression: >-
        'spec.approverGroups may hold only your own groups: '
        + (has(request.userInfo.groups) ? request.userInfo.groups.join(', ') : 'none')
      message: spec.approverGroups may hold only your own groups
      reason: Forbidden
    - expression: >-
        request.operation != 'UPDATE' || object.spec == oldObject.spec
      message: the spec of a RemediationApproval is immutable; create a new RemediationApproval
      reason: Forbidden
# Whose Secrets a KafkaCluster may name.
kafkaclusters:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
      - apiGroups: [kafkamedic.dev]
        apiVersions: ["*"]
        operations: [CREATE, UPDATE]
        resources: [kafkaclusters]
  variables:
    # The fields that decide where a Secret is sent.
    - name: directs
      expression: >-
        request.operation == 'CREATE' || object.spec.?bootstrapServers != oldObject.spec.?bootstrapServers
        || object.spec.?strimzi != oldObject.spec.?strimzi
        || object.spec.?security != oldObject.spec.?security || object.spec.?metadata != oldObject.spec.?metadata
        || object.spec.?brokers != oldObject.spec.?brokers || object.spec.?controllers != oldObject.spec.?controllers
    # With it the operator reads no Secret without the label.
    - name: labelled
      expression: object.spec.?security.?labelledSecretsOnly.orValue(false)
  validations:
    # One expression for each Secret: an expression can call the authorizer only twice (350,000 of 1,000,000 units a call).
    {{- range list "security.sasl.secretRef" "security.tls.caSecretRef" "security.tls.certSecretRef"
      "metadata.zookeeper.tls.caSecretRef" "metadata.zookeeper.tls.certSecretRef" }}
    {{- $name := printf "object.spec.%s.name" . }}
    - expression: >-
        !variables.directs || variables.labelled || !object.spec.?{{ . | replace "." ".?" }}.hasValue()
        || authorizer.group('').resource('secrets').namespace(request.namespace).name({{ $name }}).check('get').allowed()
      messageExpression: >-
        'user ' + request.userInfo.username + ' may not get Secret ' + {{ $name }} + ' in namespace ' + request.namespace
        + ', so may not send it to a Kafka cluster; ask a user who may get the Secret to write this KafkaCluster, or set'
        + ' spec.security.labelledSecretsOnly: true and label the Secret kafkamedic.dev/credentials=true'
      message: a KafkaCluster may name only Secrets that its author may get
      reason: Forbidden
    {{- end }}
    # The Secrets that the operator reads because of spec.strimzi.
    {{- range list (dict "has" "cluster" "name" "object.spec.strimzi.cluster + '-cluster-ca-cert'")
      (dict "has" "user" "name" "object.spec.strimzi.user") }}
    - expression: >-
        !variables.directs || variables.labelled || !object.spec.?strimzi.?{{ .has }}.hasValue() || has(object.spec.security)
        || authorizer.group('').resource('secrets').namespace(request.namespace).name({{ .name }}).check('get').allowed()
      messageExpression: >-
        'user ' + request.userInfo.username + ' may not get Secret ' + {{ .name }} + ' in namespace ' + request.namespace
        + ', which spec.strimzi uses; ask a user who may get the Secret to write this KafkaCluster, or set spec.security'
      message: spec.strimzi may use only Secrets that the author of the KafkaCluster may get
      reason: Forbidden
    {{- end }}
# Only the operator writes status, whatever wildcards a role has. Only people write spec.
operator:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
      - apiGroups: [kafkamedic.dev]
        apiVersions: ["*"]
        operations: [UPDATE]
        resources:
          - kafkaclusters
          - kafkaclusters/status
          - playbooks
          - playbooks/status
          - remediations
          - remediations/status
  variables:
    - name: operators
      expression: {{ $operators | quote }}
    - name: isOperator
      expression: request.userInfo.username in variables.operators
    # The key is absent, not empty, when the request writes the object itself.
    - name: isStatus
      expression: has(request.subResource) && request.subResource == 'status'
  validations:
    - expression: "!variables.isStatus || variables.isOperator"
      messageExpression: >-
        'user ' + request.userInfo.username + ' may not write status; only the operator writes status'
      message: only the operator writes status
      reason: Forbidden
    - expression: variables.isStatus || !variables.isOperator || object.spec == oldObject.spec
      message: the operator may not change spec; only people write spec
      reason: Forbidden
    - expression: >-
        variables.isStatus || !variables.isOperator
        || object.metadata.?labels == oldObject.metadata.?labels
        && object.metadata.?annotations == oldObject.metadata.?annotations
        && object.metadata.?ownerReferences == oldObject.metadata.?ownerReferences
        && object.metadata.?finalizers.orValue([]).filter(f, f != 'kafkamedic.dev/restore')
        == oldObject.metadata.?finalizers.orValue([]).filter(f, f != 'kafkamedic.dev/restore')
      message: the operator may change no metadata except its finalizer kafkamedic.dev/restore
      reason: Forbidden
# Who may request a Remediation, and in whose name.
remediations:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
      - apiGroups: [kafkamedic.dev]
        apiVersions: ["*"]
        operations: [CREATE, UPDATE]
        resources: [remediations]
  variables:
    - name: operators
      expression: {{ $operators | quote }}
  validations:
    - expression: >-
        request.operation != 'CREATE' || !has(object.spec.requestedBy)
        || object.spec.requestedBy == request.userInfo.username
      messageExpression: >-
        'spec.requestedBy must be your own user name, ' + request.userInfo.username + ', not '
        + object.spec.requestedBy
      message: spec.requestedBy must be your own user name
      reason: Forbidden
    - expression: >-
        request.operation != 'CREATE' || !has(object.spec.cause)
        || request.userInfo.username in variables.operators
      messageExpression: >-
        'only the operator may set spec.cause; set spec.requestedBy to ' + request.userInfo.username + ' instead'
      message: only the operator may set spec.cause; set spec.requestedBy to your own user name instead
      reason: Forbidden
    - expression: >-
        request.operation != 'UPDATE' || object.spec == oldObject.spec
      message: the spec of a Remediation is immutable; create a new Remediation
      reason: Forbidden
# Limits of the operator's own rights that RBAC cannot express. They also hold for a stolen token.
rights:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
      - apiGroups: [""]
        apiVersions: ["*"]
        operations: [CREATE]
        resources: [pods/eviction]
      - apiGroups: [""]
        apiVersions: ["*"]
        operations: [UPDATE]
        resources: [pods]
      - apiGroups: [kafka.strimzi.io]
        apiVersions: ["*"]
        operations: [UPDATE]
        resources: [kafkas, kafkatopics]
      - apiGroups: [coordination.k8s.io]
        apiVersions: ["*"]
        operations: [CREATE, UPDATE]
        resources: [leases]
  matchConditions:
    - name: the-operator
      expression: {{ printf "request.userInfo.username in %s" $operators | quote }}
  variables:
    - name: annotations
      expression: object.metadata.?annotations.orValue({})
    - name: oldAnnotations
      expression: "request.operation == 'UPDATE' ? oldObject.metadata.?annotations.orValue({}) : {}"
    - name: topic
      expression: "request.resource.resource == 'kafkatopics' ? object.?spec.orValue({}) : {}"
    - name: oldTopic
      expression: "request.resource.resource == 'kafkatopics' ? oldObject.?spec.orValue({}) : {}"
    # as it is, a number or not: who owns the object may write anything, and the pause has to come off all the same
    - name: sameLeast
      expression: >-
        variables.topic.?config[?'min.insync.replicas'] == variables.oldTopic.?config[?'min.insync.replicas']
    # absent counts as 1, Kafka's own default
    - name: least
      expression: variables.topic.?config[?'min.insync.replicas'].orValue(dyn(1))
    - name: oldLeast
      expression: variables.oldTopic.?config[?'min.insync.replicas'].orValue(dyn(1))
  validations:
    - expression: >-
        request.resource.resource != 'leases' || object.metadata.name.startsWith('kafka-medic-')
        || object.metadata.name == 'kafka-medic.starts'
      messageExpression: >-
        'the operator may hold only Leases named kafka-medic-CLUSTER and kafka-medic.starts, not ' + object.metadata.name
      message: the operator may hold only Leases named kafka-medic-CLUSTER and kafka-medic.starts
      reason: Forbidden
    {{- if not (or .Values.watchNamespaces .Values.restartablePods) }}
    # An Eviction has only the Pod's name. Without watchNamespaces and restartablePods RBAC limits no eviction.
    - expression: >-
        request.resource.resource != 'pods' || request.?subResource.orValue('') != 'eviction'
        || namespaceObject.metadata.?labels[?'kafkamedic.dev/restarts'].orValue('') == 'allowed'
      messageExpression: >-
        'the operator may not evict Pods in namespace ' + request.namespace + '; label the namespace'
        + ' kafkamedic.dev/restarts=allowed, or set the chart values watchNamespaces or restartablePods'
      message: the operator may not evict Pods in a namespace without the label kafkamedic.dev/restarts=allowed
      reason: Forbidden
    {{- end }}
    - expression: >-
        request.resource.resource != 'pods' || request.?subResource.orValue('') != 'eviction'
        || object.?deleteOptions.?preconditions.?uid.orValue('') != ''
        && !object.?deleteOptions.?gracePeriodSeconds.hasValue()
      message: the operator may evict a Pod only by its uid and with the Pod's own grace period
      reason: Forbidden
    - expression: >-
        request.resource.resource != 'pods' || request.operation != 'UPDATE'
        || object.spec == oldObject.spec
        && object.metadata.?labels == oldObject.metadata.?labels
        && object.metadata.?ownerReferences == oldObject.metadata.?ownerReferences
        && object.metadata.?finalizers == oldObject.metadata.?finalizers
        && variables.annotations.all(k, k == 'strimzi.io/manual-rolling-update' || k in variables.oldAnnotations
        && variables.annotations[k] == variables.oldAnnotations[k])
        && variables.oldAnnotations.all(k, k == 'strimzi.io/manual-rolling-update' || k in variables.annotations)
        && variables.annotations[?'strimzi.io/manual-rolling-update'].orValue('true') == 'true'
      message: >-
        the operator may change only the annotation strimzi.io/manual-rolling-update of a Pod, to true or by removing it
      reason: Forbidden
    - expression: >-
        request.resource.resource != 'kafkas'
        || object.spec == oldObject.spec
        && object.metadata.?labels == oldObject.metadata.?labels
        && object.metadata.?ownerReferences == oldObject.metadata.?ownerReferences
        && object.metadata.?finalizers == oldObject.metadata.?finalizers
        && variables.annotations.all(k, k == 'kafkamedic.dev/restart-asked-for' || k in variables.oldAnnotations
        && variables.annotations[k] == variables.oldAnnotations[k])
        && variables.oldAnnotations.all(k, k == 'kafkamedic.dev/restart-asked-for' || k in variables.annotations)
      message: the operator may change only the annotation kafkamedic.dev/restart-asked-for of a Kafka resource
      reason: Forbidden
    - expression: >-
        request.resource.resource != 'kafkatopics'
        || object.metadata.?labels == oldObject.metadata.?labels
        && object.metadata.?ownerReferences == oldObject.metadata.?ownerReferences
        && object.metadata.?finalizers == oldObject.metadata.?finalizers
        && variables.annotations.all(k, k == 'strimzi.io/pause-reconciliation' || k in variables.oldAnnotations
        && variables.annotations[k] == variables.oldAnnotations[k])
        && variables.oldAnnotations.all(k, k == 'strimzi.io/pause-reconciliation' || k in variables.annotations)
        && variables.annotations[?'strimzi.io/pause-reconciliation'].orValue('true') == 'true'
        && variables.topic.all(k, k in ['replicas', 'config'] || k in variables.oldTopic
        && variables.topic[k] == variables.oldTopic[k])
        && variables.oldTopic.all(k, k in variables.topic)
        && variables.topic.?config.orValue({}).all(k, k == 'min.insync.replicas'
        || k in variables.oldTopic.?config.orValue({})
        && variables.topic.config[k] == variables.oldTopic.config[k])
        && variables.oldTopic.?config.orValue({}).all(k, k in variables.topic.?config.orValue({}))
      message: >-
        the operator may change only these fields of a KafkaTopic: the annotation strimzi.io/pause-reconciliation, to true
        or by removing it, spec.replicas, and min.insync.replicas in spec.config
      reason: Forbidden
    - expression: >-
        request.resource.resource != 'kafkatopics'
        || int(variables.topic.?replicas.orValue(0)) >= int(variables.oldTopic.?replicas.orValue(0))
        && (variables.sameLeast
        || type(variables.least) == int && variables.least <= 99
        && (type(variables.oldLeast) == int && variables.least > variables.oldLeast
        || type(variables.oldLeast) == string && variables.oldLeast.matches('^[0-9]{1,9}$')
        && variables.least > int(variables.oldLeast)))
      message: >-
        the operator may not lower spec.replicas or min.insync.replicas of a KafkaTopic, nor set min.insync.replicas to
        anything but a larger number of at most 99
      reason: Forbidden
# Who may request which playbook, with which parameters: the verb use on playbooks, and on playbooks/PARAMETER.
uses:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
      - apiGroups: [kafkamedic.dev]
        apiVersions: ["*"]
        operations: [CREATE]
        resources: [remediations]
  variables:
    - name: names
      expression: >-
        has(object.spec.requestedBy) && has(object.spec.parameters) ? object.spec.parameters.map(p, p) : []
    # The right to set every parameter: playbooks/*, or every resource.
    - name: any
      expression: >-
        variables.names.size() == 0 || authorizer.group('kafkamedic.dev').resource('playbooks').subresource('*')
        .namespace(request.namespace).name(object.spec.playbook.name).check('use').allowed()
  validations:
    - expression: >-
        !has(object.spec.requestedBy) || authorizer.group('kafkamedic.dev').resource('playbooks')
        .namespace(request.namespace).name(object.spec.playbook.name).check('use').allowed()
      messageExpression: >-
        'user ' + request.userInfo.username + ' may not request playbook ' + object.spec.playbook.name
        + ' in namespace ' + request.namespace + '; you need the verb use on playbooks'
      message: to request a playbook, you need the verb use on playbooks
      reason: Forbidden
    # An expression can call the authorizer only twice (cost limit), so each parameter has its own expression. Expression N
    # checks the parameter that N other parameters precede in alphabetical order.
    - expression: "variables.any || variables.names.size() <= {{ $most }}"
      message: to set more than {{ $most }} parameters, you need the verb use on playbooks/*
      reason: Forbidden
    {{- range $number := until $most }}
    - expression: >-
        variables.any || variables.names.filter(p, variables.names.filter(q, q < p).size() == {{ $number }}).all(p,
        authorizer.group('kafkamedic.dev').resource('playbooks').subresource(p)
        .namespace(request.namespace).name(object.spec.playbook.name).check('use').allowed())
      messageExpression: >-
        'user ' + request.userInfo.username + ' may not set parameter '
        + variables.names.filter(p, variables.names.filter(q, q < p).size() == {{ $number }}).join('')
        + ' of playbook ' + object.spec.playbook.name + ' in namespace ' + request.namespace
        + '; you need the verb use on playbooks/'
        + variables.names.filter(p, variables.names.filter(q, q < p).size() == {{ $number }}).join('')
      message: to set a parameter of a playbook, you need the verb use on playbooks/PARAMETER
      reason: Forbidden
    {{- end }}
{{- end -}}

{{/* The name of a policy, of (about, spec). */}}
{{- define "kafka-medic.policyName" -}}
{{- printf "%s-%s.kafkamedic.dev" .about (.spec | toJson | sha256sum | trunc 10) -}}
{{- end -}}

{{/* A binding without further conditions, of (the policy's name). */}}
{{- define "kafka-medic.policyBinding" -}}
policyName: {{ . }}
validationActions: [Deny]
{{- end -}}

{{- define "kafka-medic.rules" -}}
{{- $policies := list -}}
{{- if .Values.admission.enabled -}}
{{- range $about, $spec := include "kafka-medic.policies" . | fromYaml -}}
{{- $name := include "kafka-medic.policyName" (dict "about" $about "spec" $spec) -}}
{{- $binding := include "kafka-medic.policyBinding" $name | fromYaml -}}
{{- $policies = append $policies (dict "about" $about "name" $name "spec" $spec "binding" $binding) -}}
{{- end -}}
{{- end -}}
{{- dict "version" 1 "policies" $policies "destinations" .Values.destinations | toPrettyJson -}}
{{- end -}}
