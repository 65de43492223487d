# The Collector that ocb builds. The context is the repository.
FROM golang:1.26 AS build
WORKDIR /src
COPY . .
RUN make build

FROM debian:stable-slim
COPY --from=build /src/dist/otelcol-rawoutput /usr/local/bin/otelcol-rawoutput
ENTRYPOINT ["otelcol-rawoutput"]
