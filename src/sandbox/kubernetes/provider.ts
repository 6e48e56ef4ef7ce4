import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import type { Duplex } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { SluiceError } from "../../contract/index.ts";
import type {
  Detected,
  ListedSandbox,
  Sandbox,
  SandboxClaim,
  SandboxProvider,
  SandboxSpec,
} from "../port.ts";
import { findRunnerProgram } from "../remote/programs.ts";
import { RemoteProvider, RemoteRecords } from "../remote/provider.ts";
import { KubeApi, KubeError, toUnreachable } from "./api.ts";
import { readKubeConfig } from "./config.ts";
import { DIAL, hindranceOf, toConfigMap, toPod, toPodName, toRunnerName, type Pod } from "./pod-spec.ts";

export interface KubernetesProviderOptions {
  /** The folder of the records of sandboxes on other machines. */
  readonly records: string;
  /** The environment with KUBECONFIG and the SLUICE_K8S variables. */
  readonly env?: NodeJS.ProcessEnv;
}

/** A pod that is pulled and scheduled anew takes a while. */
const READY_MS = 180_000;
const PAUSE_MS = 250;

/** Runs each sandbox in a pod of its own, behind the runner there. */
export function createKubernetesProvider(options: KubernetesProviderOptions): SandboxProvider {
  return new KubernetesProvider(options);
}

class KubernetesProvider implements SandboxProvider {
  readonly id = "kubernetes";
  readonly isolated = true;
  readonly hasPrograms = true;
  readonly #env: NodeJS.ProcessEnv;
  readonly #records: RemoteRecords;
  readonly #pods = new Map<string, RemoteProvider>();
  #api: Promise<KubeApi> | undefined;
  #runner: Promise<string> | undefined;

  constructor({ records, env = process.env }: KubernetesProviderOptions) {
    this.#env = env;
    this.#records = new RemoteRecords(records);
  }

  /** Asks the cluster for each right that the account needs. */
  async detect(): Promise<Detected> {
    try {
      const api = await this.#open();
      const missing: string[] = [];
      for (const [verb, resource] of RIGHTS)
        if (!(await mayDo(api, verb, resource))) missing.push(`${verb} ${resource}`);
      if (missing.length > 0) {
        const reason = `the account may not: ${missing.join(", ")}, in the namespace ${api.config.namespace}`;
        return { available: false, reason, remedy: "kubectl apply -f deploy/kubernetes/role.yaml" };
      }
      if (this.#image({}) !== undefined) return { available: true };
      return { available: false, reason: "SLUICE_K8S_IMAGE names no image with node and the agents" };
    } catch (error) {
      return { available: false, reason: (error as Error).message };
    }
  }

  async check(spec: Parameters<NonNullable<SandboxProvider["check"]>>[0]): Promise<void> {
    this.#demandImage(spec);
    const { image: _, ...rest } = spec;
    RemoteProvider.refuse(this.id, rest);
    const api = await this.#open();
    await api.call("GET", api.path("pods?limit=1")).catch((error: unknown) => {
      throw toFailure(error, api);
    });
  }

  async create(spec: SandboxSpec, claim?: SandboxClaim): Promise<Sandbox> {
    const image = this.#demandImage(spec);
    const { image: _, limits: __, ...rest } = spec;
    RemoteProvider.refuse(this.id, rest);
    const api = await this.#open();
    const { id, session } = spec;
    // Before the pod: one whose making was interrupted is found, and ended with its session.
    await this.#records.keep({ id, provider: this.id, ...(session === undefined ? {} : { session }) });
    try {
      const runner = await this.#publish(api);
      const runtimeClass = this.#env["SLUICE_K8S_RUNTIME_CLASS"];
      await orExisting(api.call("POST", api.path("pods"), toPod(spec, { image, runner, runtimeClass })));
      await this.#ready(api, id);
    } catch (error) {
      throw toFailure(error, api);
    }
    return this.#pod(id).create(rest, claim);
  }

  /** Undefined only where the API server says that there is no such pod, or that it has ended for good. */
  async connect(id: string, claim?: SandboxClaim): Promise<Sandbox | undefined> {
    const api = await this.#open();
    const pod = await this.#find(api, id).catch((error: unknown) => {
      throw toUnreachable(error, this.id);
    });
    if (!pod || pod.status?.phase === "Failed" || pod.status?.phase === "Succeeded") return undefined;
    return this.#pod(id).connect(id, claim);
  }

  async list(): Promise<ListedSandbox[]> {
    return (await this.#records.list()).filter(({ provider }) => provider === this.id);
  }

  #open(): Promise<KubeApi> {
    this.#api ??= readKubeConfig(this.#env).then((config) => new KubeApi(config));
    this.#api.catch(() => (this.#api = undefined));
    return this.#api;
  }

  #image({ image }: { image?: string | undefined }): string | undefined {
    return image ?? (this.#env["SLUICE_K8S_IMAGE"] || undefined);
  }

  #demandImage(spec: { image?: string | undefined }): string {
    const image = this.#image(spec);
    if (image !== undefined) return image;
    const detail =
      "A kubernetes sandbox needs an image with node 20 and the agent: name it in the session's image, or for all sessions in SLUICE_K8S_IMAGE.";
    throw new SluiceError("invalid_request", detail);
  }

  /** The runner's file of this version, in the cluster. */
  #publish(api: KubeApi): Promise<string> {
    this.#runner ??= (async () => {
      const content = await readFile(findRunnerProgram(), "utf8");
      const name = toRunnerName(createHash("sha256").update(content).digest("hex"));
      await orExisting(api.call("POST", api.path("configmaps"), toConfigMap(name, content)));
      return name;
    })();
    this.#runner.catch(() => (this.#runner = undefined));
    return this.#runner;
  }

  async #find(api: KubeApi, id: string): Promise<Pod | undefined> {
    return api.call<Pod>("GET", api.path(`pods/${toPodName(id)}`)).catch((error: unknown) => {
      if (error instanceof KubeError && error.status === 404) return undefined;
      throw error;
    });
  }

  async #ready(api: KubeApi, id: string): Promise<void> {
    const giveUpAt = performance.now() + READY_MS;
    let last: Pod | undefined;
    while (performance.now() < giveUpAt) {
      last = await this.#find(api, id);
      const hindrance = last && hindranceOf(last);
      if (hindrance !== undefined)
        throw new SluiceError("unsupported_sandbox", `The pod of the sandbox does not start: ${hindrance}`);
      if (last?.status?.phase === "Running" && last.status.containerStatuses?.[0]?.ready) return;
      await sleep(PAUSE_MS);
    }
    const why =
      last?.status?.conditions?.find(({ status }) => status === "False")?.message ?? "it is pending";
    throw new SluiceError("sandbox_unreachable", `The pod of the sandbox did not start in time: ${why}`);
  }

  /** The one sandbox of a pod, behind its runner. */
  #pod(id: string): RemoteProvider {
    const known = this.#pods.get(id);
    if (known) return known;
    const provider = new RemoteProvider({
      id: this.id,
      isolated: true,
      dial: () => this.#dial(id),
      records: this.#records,
      remove: () => this.#remove(id),
      shortcomings: ["the network of the pod is restricted by the cluster's own policies alone"],
    });
    this.#pods.set(id, provider);
    return provider;
  }

  async #dial(id: string): Promise<Duplex> {
    const api = await this.#open();
    try {
      return await api.exec(toPodName(id), DIAL);
    } catch (error) {
      if (error instanceof KubeError && error.status === 404 && !(await this.#find(api, id)))
        throw new SluiceError("not_found", `There is no pod of the sandbox ${id} any more.`);
      throw toUnreachable(error, this.id);
    }
  }

  async #remove(id: string): Promise<void> {
    const api = await this.#open();
    try {
      await api.call("DELETE", api.path(`pods/${toPodName(id)}`)).catch((error: unknown) => {
        if (!(error instanceof KubeError && error.status === 404)) throw error;
      });
      const giveUpAt = performance.now() + 60_000;
      while (await this.#find(api, id)) {
        if (performance.now() > giveUpAt) throw new Error("the pod does not end");
        await sleep(PAUSE_MS);
      }
    } catch (error) {
      throw toUnreachable(error, this.id);
    }
    this.#pods.get(id)?.close();
    this.#pods.delete(id);
  }
}

/** The account's rights, as in deploy/kubernetes/role.yaml. */
const RIGHTS: readonly (readonly [verb: string, resource: string])[] = [
  ["create", "pods"],
  ["get", "pods"],
  ["list", "pods"],
  ["delete", "pods"],
  ["get", "pods/exec"],
  ["create", "configmaps"],
];

async function mayDo(api: KubeApi, verb: string, resource: string): Promise<boolean> {
  const [name, subresource] = resource.split("/");
  const { namespace } = api.config;
  const review = {
    apiVersion: "authorization.k8s.io/v1",
    kind: "SelfSubjectAccessReview",
    spec: {
      resourceAttributes: { namespace, verb, resource: name, ...(subresource ? { subresource } : {}) },
    },
  };
  const path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
  const { status } = await api.call<{ status?: { allowed?: boolean } }>("POST", path, review);
  return status?.allowed === true;
}

async function orExisting(call: Promise<unknown>): Promise<void> {
  await call.catch((error: unknown) => {
    if (!(error instanceof KubeError && error.status === 409)) throw error;
  });
}

function toFailure(error: unknown, { config }: KubeApi): SluiceError {
  if (error instanceof SluiceError) return error;
  const isRefused = error instanceof KubeError && [400, 401, 403, 422].includes(error.status);
  if (!isRefused) return toUnreachable(error, "kubernetes");
  const detail = `The cluster refuses the sandbox: ${error.message}. \`sluice doctor --sandbox kubernetes\` says what the account may do in the namespace ${config.namespace}.`;
  return new SluiceError("permission_denied", detail, {}, { cause: error });
}
