# A container with the program and nothing else that it does not need. No root, no shell entry, no port.
#   docker build -t premise-auditor .
#   docker run --rm premise-auditor audit http://host:8000 --window 60s
#   docker run --rm --read-only --tmpfs /tmp -v "$PWD:/work" --user "$(id -u)" premise-auditor gate ...
FROM python:3.11-slim-bookworm AS build
WORKDIR /src
COPY requirements.lock pyproject.toml README.md LICENSE CHANGELOG.md ./
COPY auditor ./auditor
COPY queries ./queries
COPY fixtures/demo ./fixtures/demo
RUN python -m venv /opt/auditor \
    && /opt/auditor/bin/pip install --no-cache-dir --disable-pip-version-check --constraint requirements.lock . \
    && /opt/auditor/bin/pip uninstall --yes --disable-pip-version-check pip setuptools

FROM python:3.11-slim-bookworm
COPY --from=build /opt/auditor /opt/auditor
ENV PATH=/opt/auditor/bin:$PATH \
    MPLCONFIGDIR=/tmp/matplotlib \
    PYTHONDONTWRITEBYTECODE=1
WORKDIR /work
# A number, so that Kubernetes can see that it is not root (runAsNonRoot).
USER 65532:65532
ENTRYPOINT ["auditor"]
CMD ["--help"]
