# sluice serve in a container. See docs/deployment.md for the options that bubblewrap needs.
ARG BASE=node:22-bookworm-slim

FROM ${BASE} AS build
WORKDIR /src
COPY package.json package-lock.json ./
RUN npm ci --ignore-scripts --no-audit --no-fund
COPY . .
RUN npm run build && npm prune --omit=dev --ignore-scripts --no-audit --no-fund

FROM ${BASE} AS server
RUN apt-get update \
  && apt-get install -y --no-install-recommends bubblewrap ca-certificates git procps tini \
  && rm -rf /var/lib/apt/lists/*
RUN groupadd --gid 10001 sluice \
  && useradd --uid 10001 --gid sluice --create-home --shell /bin/sh sluice \
  && mkdir -p /data /opt/sluice \
  && chown sluice:sluice /data \
  && chmod 700 /data \
  && ln -s /opt/sluice/bin/sluice /usr/local/bin/sluice
COPY --from=build /src/package.json /src/openapi.json /src/LICENSE /opt/sluice/
COPY --from=build /src/bin /opt/sluice/bin
COPY --from=build /src/node_modules /opt/sluice/node_modules
COPY --from=build /src/dist /opt/sluice/dist
COPY --from=build /src/deploy/entrypoint.sh /opt/sluice/entrypoint.sh

USER sluice
WORKDIR /home/sluice
ENV SLUICE_DATA=/data
VOLUME /data
EXPOSE 7411
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s --retries=3 \
  CMD ["node", "-e", "fetch('http://127.0.0.1:7411/healthz').then((r) => process.exit(r.ok ? 0 : 1), () => process.exit(1))"]
ENTRYPOINT ["tini", "--", "/bin/sh", "/opt/sluice/entrypoint.sh"]
