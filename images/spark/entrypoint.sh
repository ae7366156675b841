#!/bin/sh
# Spark on Kubernetes starts an executor's Pod with the argument `executor` and says the rest in the environment. The
# script that answers to this comes with Spark's distribution, not with PySpark's package. Whatever else is a command.
set -eu
if [ "${1:-}" != executor ]; then
    exec "$@"
fi
set --
number=0
while option=$(printenv "SPARK_JAVA_OPT_$number"); do
    set -- "$@" "$option"
    number=$((number + 1))
done
# Executors put what the driver sends them into the folder that they start in.
cd "$(mktemp -d)"
exec java "$@" -Xms"$SPARK_EXECUTOR_MEMORY" -Xmx"$SPARK_EXECUTOR_MEMORY" -cp "$SPARK_HOME/jars/*" \
    org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
    --driver-url "$SPARK_DRIVER_URL" \
    --executor-id "$SPARK_EXECUTOR_ID" \
    --cores "$SPARK_EXECUTOR_CORES" \
    --app-id "$SPARK_APPLICATION_ID" \
    --hostname "$SPARK_EXECUTOR_POD_IP" \
    --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" \
    --podName "$SPARK_EXECUTOR_POD_NAME"
