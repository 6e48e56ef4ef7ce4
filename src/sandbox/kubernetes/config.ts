import { execFile } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { promisify } from "node:util";
import { SluiceError } from "../../contract/index.ts";
import { isRecord } from "../../contract/json.ts";

/** A cluster, and the account in it. */
export interface KubeConfig {
  readonly server: URL;
  readonly namespace: string;
  readonly tls: {
    readonly ca?: string | Buffer;
    readonly cert?: string | Buffer;
    readonly key?: string | Buffer;
    readonly rejectUnauthorized?: false;
  };
  /** Asked for each request: tokens change. */
  token?(): Promise<string>;
}

const ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount";

/** `KUBECONFIG`, the account of this pod, or `~/.kube/config`; the namespace of `SLUICE_K8S_NAMESPACE` goes first. */
export async function readKubeConfig(env: NodeJS.ProcessEnv): Promise<KubeConfig> {
  const named = env["KUBECONFIG"];
  const inCluster = env["KUBERNETES_SERVICE_HOST"] !== undefined && existsSync(`${ACCOUNT}/token`);
  if ((named === undefined || named === "") && inCluster) return toInCluster(env);
  const file = named?.split(":").find((path) => path !== "" && existsSync(path));
  const path = named === undefined || named === "" ? join(env["HOME"] ?? homedir(), ".kube/config") : file;
  if (path === undefined || !existsSync(path))
    throw unusable(
      `there is no ${path ?? named}. Name a kubeconfig with KUBECONFIG, or run sluice in the cluster`,
    );
  return toConfig(await parse(readFileSync(path, "utf8"), path), { env, folder: dirname(resolve(path)) });
}

function toInCluster(env: NodeJS.ProcessEnv): KubeConfig {
  const host = env["KUBERNETES_SERVICE_HOST"] ?? "";
  const port = env["KUBERNETES_SERVICE_PORT"] ?? "443";
  return {
    server: new URL(`https://${host.includes(":") ? `[${host}]` : host}:${port}`),
    namespace: env["SLUICE_K8S_NAMESPACE"] || readFileSync(`${ACCOUNT}/namespace`, "utf8").trim(),
    tls: { ca: readFileSync(`${ACCOUNT}/ca.crt`) },
    token: async () => readFileSync(`${ACCOUNT}/token`, "utf8").trim(),
  };
}

async function parse(text: string, path: string): Promise<unknown> {
  if (text.trimStart().startsWith("{")) return JSON.parse(text);
  const yaml = await import("yaml").catch((cause: unknown) => {
    const detail =
      "The sandbox kubernetes needs the package yaml to read a kubeconfig. Run: npm install yaml";
    throw new SluiceError("unsupported_sandbox", detail, {}, { cause });
  });
  try {
    return yaml.parse(text) as unknown;
  } catch (error) {
    throw unusable(`${path} is no kubeconfig: ${(error as Error).message}`);
  }
}

type Fields = Record<string, unknown>;

function toConfig(value: unknown, { env, folder }: { env: NodeJS.ProcessEnv; folder: string }): KubeConfig {
  const config = isRecord(value) ? value : {};
  const context = pick(config["contexts"], config["current-context"], "context");
  const cluster = pick(config["clusters"], context["cluster"], "cluster");
  const user = pick(config["users"], context["user"], "user");
  const server = String(cluster["server"] ?? "");
  if (!URL.canParse(server)) throw unusable("the kubeconfig's current context has no cluster with a server");
  const bytes = (from: Fields, name: string): Buffer | undefined => {
    const data = from[`${name}-data`];
    if (typeof data === "string") return Buffer.from(data, "base64");
    return typeof from[name] === "string" ? readFileSync(resolve(folder, from[name])) : undefined;
  };
  const [ca, cert, key] = [
    bytes(cluster, "certificate-authority"),
    bytes(user, "client-certificate"),
    bytes(user, "client-key"),
  ];
  const token = toToken(user, folder, env);
  return {
    server: new URL(server),
    namespace: env["SLUICE_K8S_NAMESPACE"] || String(context["namespace"] ?? "default"),
    tls: {
      ...(ca ? { ca } : {}),
      ...(cert ? { cert } : {}),
      ...(key ? { key } : {}),
      ...(cluster["insecure-skip-tls-verify"] === true ? { rejectUnauthorized: false as const } : {}),
    },
    ...(token ? { token } : {}),
  };
}

function pick(list: unknown, name: unknown, field: string): Fields {
  const entries = Array.isArray(list) ? (list as unknown[]).filter(isRecord) : [];
  const found = entries.find((entry) => entry["name"] === name)?.[field];
  return isRecord(found) ? found : {};
}

function toToken(user: Fields, folder: string, env: NodeJS.ProcessEnv): (() => Promise<string>) | undefined {
  const { token, tokenFile, exec } = user;
  if (typeof tokenFile === "string")
    return async () => readFileSync(resolve(folder, tokenFile), "utf8").trim();
  if (typeof token === "string") return async () => token;
  if (!isRecord(exec) || typeof exec["command"] !== "string") return undefined;
  const command = exec["command"];
  const args = Array.isArray(exec["args"]) ? exec["args"].map(String) : [];
  const given = Array.isArray(exec["env"]) ? (exec["env"] as unknown[]).filter(isRecord) : [];
  const own = Object.fromEntries(given.map(({ name, value }) => [String(name), String(value)]));
  let known: { token: string; until: number } | undefined;
  return async () => {
    if (known && known.until > Date.now()) return known.token;
    const { stdout } = await promisify(execFile)(command, args, { env: { ...env, ...own }, timeout: 30_000 });
    const { status } = JSON.parse(stdout) as { status?: { token?: string; expirationTimestamp?: string } };
    const until = Date.parse(status?.expirationTimestamp ?? "") || Date.now() + 300_000;
    known = { token: status?.token ?? "", until: until - 30_000 };
    return known.token;
  };
}

function unusable(why: string): SluiceError {
  return new SluiceError("unsupported_sandbox", `The sandbox kubernetes has no cluster: ${why}.`);
}
