# The operator's image. BASE is any Debian with Python 3.11 or later and its venv module. A release is built with the digest
# of its base: `make pin-base` writes it here, or --build-arg BASE=python:3.12-slim-bookworm@sha256:...
ARG BASE=python:3.12-slim-bookworm
FROM ${BASE} AS packages

ENV PYTHONDONTWRITEBYTECODE=1 \
    PYTHONHASHSEED=0 \
    PIP_NO_CACHE_DIR=1 \
    PIP_NO_COMPILE=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1

# pip and the build backend have an environment of their own, which does not get into the image.
COPY locks/runtime.txt locks/build.txt images/slim.py /tmp/source/
RUN python3 -m venv /opt/build \
 && /opt/build/bin/pip install --quiet --no-deps --require-hashes -r /tmp/source/build.txt \
 && python3 -m venv --without-pip /opt/kafka-medic \
 && /opt/build/bin/pip --python /opt/kafka-medic/bin/python install --quiet --no-deps --require-hashes -r /tmp/source/runtime.txt \
 && /opt/kafka-medic/bin/python /tmp/source/slim.py /opt/kafka-medic

# What the operator stands on changes seldom: a layer of its own, exactly the locked versions.
FROM ${BASE} AS dependencies
COPY --from=packages /opt/kafka-medic /opt/kafka-medic
ENV PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONPATH=/opt/project \
    PATH=/opt/project/bin:/opt/kafka-medic/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

FROM packages AS project
COPY pyproject.toml README.md LICENSE /tmp/project/
COPY operator /tmp/project/operator
COPY images/imports.py /tmp/source/
RUN /opt/build/bin/pip wheel --quiet --no-deps --no-build-isolation --wheel-dir /tmp/wheel /tmp/project \
 && /opt/build/bin/pip --python /opt/kafka-medic/bin/python install --quiet --no-deps --target /opt/project /tmp/wheel/*.whl \
 && /opt/kafka-medic/bin/python -m compileall -q --invalidation-mode unchecked-hash /opt/project \
 && PYTHONPATH=/opt/project /opt/kafka-medic/bin/python /tmp/source/imports.py pyspark pandas matplotlib grpc

FROM dependencies
COPY --from=project /opt/project /opt/project
# No home and nothing to write: works with a read-only root file system.
USER 10001:10001
WORKDIR /
ENTRYPOINT ["python", "-m", "kafka_medic.controller"]
