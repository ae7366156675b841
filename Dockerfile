# The operator's image. BASE is any Debian with Python 3.11 or later and its venv module. A release is built with the digest
# of its base: `make pin-base` writes it here, or --build-arg BASE=python:3.12-slim-bookworm@sha256:...
ARG BASE=python:3.12-slim-bookworm
FROM ${BASE} AS dependencies

ENV PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PATH=/opt/kafka-medic/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

# What the operator stands on changes seldom: a stage of its own, exactly the locked versions.
COPY locks/runtime.txt locks/build.txt /tmp/source/locks/
RUN python3 -m venv /opt/kafka-medic \
 && pip install --quiet --no-deps --require-hashes -r /tmp/source/locks/runtime.txt \
 && pip install --quiet --no-deps --require-hashes -r /tmp/source/locks/build.txt

FROM dependencies

COPY pyproject.toml README.md LICENSE /tmp/source/
COPY operator /tmp/source/operator
RUN pip install --quiet --no-deps --no-build-isolation /tmp/source \
 && rm -rf /tmp/source

# No home and nothing to write: works with a read-only root file system.
USER 10001:10001
WORKDIR /
ENTRYPOINT ["python", "-m", "kafka_medic.controller"]
