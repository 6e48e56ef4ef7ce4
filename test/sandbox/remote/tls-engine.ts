import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { connect, type AddressInfo } from "node:net";
import { join } from "node:path";
import type { Duplex } from "node:stream";
import { createServer } from "node:tls";
import { makeFolder, onCleanup } from "./workbench.ts";

/** A real engine as another machine has it: behind mutual TLS, with a connection that can be cut. */
export interface TlsEngine {
  /** The settings of Docker. */
  readonly env: Record<string, string>;
  readonly folder: string;
  cut(): void;
  /** Refuses connections, and cuts the old ones. */
  down(isDown: boolean): void;
}

export async function startTlsEngine(socketPath: string): Promise<TlsEngine> {
  const folder = await makeFolder();
  makeCertificates(folder);
  const pem = (name: string): Buffer => readFileSync(join(folder, name));
  const streams = new Set<Duplex>();
  let isDown = false;
  const options = { key: pem("server-key.pem"), cert: pem("server.pem"), ca: pem("ca.pem") };
  const server = createServer(
    { ...options, requestCert: true, rejectUnauthorized: true, allowHalfOpen: true },
    (near) => {
      if (isDown) return void near.destroy();
      const far = connect({ path: socketPath, allowHalfOpen: true });
      for (const stream of [near, far]) {
        streams.add(stream);
        stream.on("error", () => {}).on("close", () => streams.delete(stream));
      }
      near.pipe(far).pipe(near);
      near.on("close", () => far.destroy());
      far.on("close", () => near.destroy());
    },
  );
  server.on("tlsClientError", () => {});
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const cut = (): void => {
    for (const stream of streams) stream.destroy();
  };
  onCleanup(async () => {
    cut();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  return {
    folder,
    env: { DOCKER_HOST: `tcp://127.0.0.1:${port}`, DOCKER_TLS_VERIFY: "1", DOCKER_CERT_PATH: folder },
    cut,
    down: (value) => {
      isDown = value;
      if (value) cut();
    },
  };
}

function makeCertificates(folder: string): void {
  const openssl = (...args: string[]): void =>
    void execFileSync("openssl", args, { cwd: folder, stdio: "ignore" });
  const key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
  openssl("req", "-x509", ...key, "-keyout", "ca-key.pem", "-out", "ca.pem", "-subj", "/CN=ca", "-days", "2");
  writeFileSync(join(folder, "names"), "subjectAltName=IP:127.0.0.1\n");
  for (const [name, file] of [
    ["server", "server-key.pem"],
    ["cert", "key.pem"],
  ] as const) {
    openssl("req", ...key, "-keyout", file, "-out", `${name}.csr`, "-subj", `/CN=${name}`);
    const signing = ["-CA", "ca.pem", "-CAkey", "ca-key.pem", "-CAcreateserial", "-days", "2"];
    openssl("x509", "-req", "-in", `${name}.csr`, ...signing, "-extfile", "names", "-out", `${name}.pem`);
  }
}
