#!/bin/sh
# Stands in for Kafka's own script: what Strimzi's scripts set, and no more.
# shellcheck disable=SC2086 # each of these variables holds several options
exec java ${KAFKA_HEAP_OPTS:--Xmx256m} ${KAFKA_JVM_PERFORMANCE_OPTS:--XX:+UseSerialGC -XX:TieredStopAtLevel=1} \
    ${KAFKA_GC_LOG_OPTS} ${KAFKA_JMX_OPTS} ${KAFKA_LOG4J_OPTS} \
    -cp "${CLASSPATH:+$CLASSPATH:}/opt/kafka/libs/*" ${KAFKA_OPTS} "$@"
