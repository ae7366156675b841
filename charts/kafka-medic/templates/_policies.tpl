{{/*
The specs of the ValidatingAdmissionPolicies, by what they are about. They are installed (admission.yaml), and given to the
operator (rules.yaml), which compares them with what the API server has. A name ends in the digest of its spec: another spec
is another object, so an object that was never edited is proof of what stood since its creation.
*/}}
{{- define "kafka-medic.policies" -}}
{{- $operators := include "kafka-medic.operators" . }}
{{- $most := 16 }}
# Whose word an approval is.
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
      message: the operator itself can approve nothing
      reason: Forbidden
    - expression: >-
        request.operation != 'CREATE' || authorizer.group('kafkamedic.dev').resource('remediations')
        .namespace(request.namespace).name(object.spec.remediationRef.name).check('approve').allowed()
      messageExpression: >-
        'user ' + request.userInfo.username + ' may not decide on remediation ' + object.spec.remediationRef.name
        + ' in namespace ' + request.namespace + ': that needs the verb approve on remediations'
        + ' (ClusterRole {{ include "kafka-medic.fullname" . }}-approver)'
      message: deciding on a remediation needs the verb approve on remediations
      reason: Forbidden
    - expression: >-
        request.operation != 'CREATE' || object.spec.approver == request.userInfo.username
      messageExpression: >-
        'spec.approver must be your own user name, ' + request.userInfo.username + ', not ' + object.spec.approver
      message: spec.approver must be your own user name
      reason: Forbidden
    # the operator asks for the approver's rights with these groups
    - expression: >-
        request.operation != 'CREATE' || !has(object.spec.approverGroups) || has(request.userInfo.groups)
        && object.spec.approverGroups.all(g, g in request.userInfo.groups)
      messageExpression: >-
        'spec.approverGroups may hold only groups that you are in: '
        + (has(request.userInfo.groups) ? request.userInfo.groups.join(', ') : 'none')
      message: spec.approverGroups may hold only groups that you are in
      reason: Forbidden
    - expression: >-
        request.operation != 'UPDATE' || object.spec == oldObject.spec
      message: an approval cannot be changed; create another one
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
    # what decides to whom a Secret goes
    - name: directs
      expression: >-
        request.operation == 'CREATE' || object.spec.?bootstrapServers != oldObject.spec.?bootstrapServers
        || object.spec.?strimzi != oldObject.spec.?strimzi
        || object.spec.?security != oldObject.spec.?security || object.spec.?metadata != oldObject.spec.?metadata
        || object.spec.?brokers != oldObject.spec.?brokers || object.spec.?controllers != oldObject.spec.?controllers
    # the operator then reads no Secret without the label
    - name: labelled
      expression: object.spec.?security.?labelledSecretsOnly.orValue(false)
  validations:
    # one by one: a single expression may ask the authorizer twice at most (a million units of cost, 350,000 for a question)
    {{- range list "security.sasl.secretRef" "security.tls.caSecretRef" "security.tls.certSecretRef"
      "metadata.zookeeper.tls.caSecretRef" "metadata.zookeeper.tls.certSecretRef" }}
    {{- $name := printf "object.spec.%s.name" . }}
    - expression: >-
        !variables.directs || variables.labelled || !object.spec.?{{ . | replace "." ".?" }}.hasValue()
        || authorizer.group('').resource('secrets').namespace(request.namespace).name({{ $name }}).check('get').allowed()
      messageExpression: >-
        'user ' + request.userInfo.username + ' may not get Secret ' + {{ $name }} + ' in namespace ' + request.namespace
        + ', so may not have it sent to a Kafka cluster: let somebody who may get it write this KafkaCluster, or set'
        + ' spec.security.labelledSecretsOnly and have the Secret labelled kafkamedic.dev/credentials=true'
      message: a KafkaCluster names only Secrets that its author may get
      reason: Forbidden
    {{- end }}
    # the Secrets that spec.strimzi stands for
    {{- range list (dict "has" "cluster" "name" "object.spec.strimzi.cluster + '-cluster-ca-cert'")
      (dict "has" "user" "name" "object.spec.strimzi.user") }}
    - expression: >-
        !variables.directs || variables.labelled || !object.spec.?strimzi.?{{ .has }}.hasValue() || has(object.spec.security)
        || authorizer.group('').resource('secrets').namespace(request.namespace).name({{ .name }}).check('get').allowed()
      messageExpression: >-
        'user ' + request.userInfo.username + ' may not get Secret ' + {{ .name }} + ' in namespace ' + request.namespace
        + ', which spec.strimzi stands for: let somebody who may get it write this KafkaCluster, or set spec.security'
      message: a KafkaCluster stands only for Secrets that its author may get
      reason: Forbidden
    {{- end }}
# Status is the operator's alone, whatever wildcards somebody's role has; spec is people's alone.
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
    # the key is absent, not empty, when the object itself is written
    - name: isStatus
      expression: has(request.subResource) && request.subResource == 'status'
  validations:
    - expression: "!variables.isStatus || variables.isOperator"
      messageExpression: >-
        'user ' + request.userInfo.username + ' may not write status: only the operator does'
      message: only the operator writes status
      reason: Forbidden
    - expression: variables.isStatus || !variables.isOperator || object.spec == oldObject.spec
      message: the operator may not change what people asked of it
      reason: Forbidden
    - expression: >-
        variables.isStatus || !variables.isOperator
        || object.metadata.?labels == oldObject.metadata.?labels
        && object.metadata.?annotations == oldObject.metadata.?annotations
        && object.metadata.?ownerReferences == oldObject.metadata.?ownerReferences
        && object.metadata.?finalizers.orValue([]).filter(f, f != 'kafkamedic.dev/restore')
        == oldObject.metadata.?finalizers.orValue([]).filter(f, f != 'kafkamedic.dev/restore')
      message: the operator may change no metadata but its own finalizer
      reason: Forbidden
# Who asks for a remediation, and in whose name.
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
        'only the operator proposes a remediation from a finding: set spec.requestedBy to '
        + request.userInfo.username + ' instead of spec.cause'
      message: only the operator proposes a remediation from a finding
      reason: Forbidden
    - expression: >-
        request.operation != 'UPDATE' || object.spec == oldObject.spec
      message: a remediation cannot be changed; create another one
      reason: Forbidden
# What RBAC cannot say of the operator's own rights. They hold for a stolen token too.
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
    # An Eviction names a Pod and shows nothing of it. Without watchNamespaces and restartablePods RBAC bounds nothing.
    - expression: >-
        request.resource.resource != 'pods' || request.?subResource.orValue('') != 'eviction'
        || namespaceObject.metadata.?labels[?'kafkamedic.dev/restarts'].orValue('') == 'allowed'
      messageExpression: >-
        'the operator may evict no Pod in namespace ' + request.namespace + ': label the namespace'
        + ' kafkamedic.dev/restarts=allowed, or set the chart values watchNamespaces or restartablePods'
      message: the operator may evict no Pod in a namespace without the label kafkamedic.dev/restarts=allowed
      reason: Forbidden
    {{- end }}
    - expression: >-
        request.resource.resource != 'pods' || request.?subResource.orValue('') != 'eviction'
        || object.?deleteOptions.?preconditions.?uid.orValue('') != ''
        && !object.?deleteOptions.?gracePeriodSeconds.hasValue()
      message: the operator evicts exactly one Pod, by its uid, with the Pod's own grace period
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
      message: the operator may change nothing of a Pod but the annotation strimzi.io/manual-rolling-update, to true or away
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
      message: the operator may change nothing of a Kafka resource but the annotation kafkamedic.dev/restart-asked-for
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
        the operator may change nothing of a KafkaTopic but the annotation strimzi.io/pause-reconciliation, to true or
        away, spec.replicas, and min.insync.replicas in spec.config
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
# Who may ask for which playbook, with which parameters: the verb use on playbooks, and on playbooks/PARAMETER.
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
    # every parameter at once: playbooks/*, or every resource
    - name: any
      expression: >-
        variables.names.size() == 0 || authorizer.group('kafkamedic.dev').resource('playbooks').subresource('*')
        .namespace(request.namespace).name(object.spec.playbook.name).check('use').allowed()
  validations:
    - expression: >-
        !has(object.spec.requestedBy) || authorizer.group('kafkamedic.dev').resource('playbooks')
        .namespace(request.namespace).name(object.spec.playbook.name).check('use').allowed()
      messageExpression: >-
        'user ' + request.userInfo.username + ' may not ask for playbook ' + object.spec.playbook.name
        + ' in namespace ' + request.namespace + ': that needs the verb use on playbooks'
      message: asking for a playbook needs the verb use on playbooks
      reason: Forbidden
    # An expression can ask the authorizer twice at most (its cost limit), so each parameter has one of its own: the one
    # before which as many others come as its number says.
    - expression: "variables.any || variables.names.size() <= {{ $most }}"
      message: setting more than {{ $most }} parameters needs the verb use on playbooks/*
      reason: Forbidden
    {{- range $number := until $most }}
    - expression: >-
        variables.any || variables.names.filter(p, variables.names.filter(q, q < p).size() == {{ $number }}).all(p,
        authorizer.group('kafkamedic.dev').resource('playbooks').subresource(p)
        .namespace(request.namespace).name(object.spec.playbook.name).check('use').allowed())
      messageExpression: >-
        'user ' + request.userInfo.username + ' may not set '
        + variables.names.filter(p, variables.names.filter(q, q < p).size() == {{ $number }}).join('')
        + ' of playbook ' + object.spec.playbook.name + ' in namespace ' + request.namespace
        + ': that needs the verb use on playbooks/'
        + variables.names.filter(p, variables.names.filter(q, q < p).size() == {{ $number }}).join('')
      message: setting a parameter of a playbook needs the verb use on playbooks/PARAMETER
      reason: Forbidden
    {{- end }}
{{- end -}}

{{/* Of (what it is about, its spec). */}}
{{- define "kafka-medic.policyName" -}}
{{- printf "%s-%s.kafkamedic.dev" .about (.spec | toJson | sha256sum | trunc 10) -}}
{{- end -}}

{{/* A binding that narrows nothing, of (the policy's name). */}}
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
