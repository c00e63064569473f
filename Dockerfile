# docker build -t hierlpr .
# docker run --rm --read-only --tmpfs /tmp -v "$PWD:/data" --user "$(id -u)" hierlpr rank --model model.hlpr ...
FROM python:3.13-slim AS build
WORKDIR /source
COPY . .
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.13-slim
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir /wheels/*.whl "duckdb>=1.0" && rm -r /wheels
# The compiled inner loops are made now, for any processor of this kind. Numba reads a cache only where it may
# write, so each start copies it (a few megabytes) to /tmp, the one folder that a read-only container can write.
ENV NUMBA_CPU_NAME=generic NUMBA_CPU_FEATURES="" NUMBA_CACHE_DIR=/tmp/numba MPLCONFIGDIR=/tmp/matplotlib
RUN hierlpr demo --out /tmp/demo && rm -r /tmp/demo && mv /tmp/numba /opt/numba && chmod -R a+rX /opt/numba
WORKDIR /data
USER 1000
ENTRYPOINT ["/bin/sh", "-c", "cp -r /opt/numba /tmp/ && exec hierlpr \"$@\"", "hierlpr"]
