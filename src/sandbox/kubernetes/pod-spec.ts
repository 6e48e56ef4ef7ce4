import { createHash } from "node:crypto";
import type { SandboxSpec } from "../port.ts";

/** The port of the runner, on the pod's loopback only. */
const RUNNER_PORT = 47_118;
const ROOT = "/sluice";
const PROGRAM = "/opt/sluice/runner.cjs";
/** The command that connects its standard streams to the runner. */
export const DIAL: readonly string[] = ["node", PROGRAM, "dial", String(RUNNER_PORT)];
const USER = 1_000;

export interface Pod {
  readonly metadata?: { readonly deletionTimestamp?: string };
  readonly status?: {
    readonly phase?: string;
    readonly reason?: string;
    readonly message?: string;
    readonly conditions?: readonly { type?: string; status?: string; message?: string }[];
    readonly containerStatuses?: readonly {
      ready?: boolean;
      state?: { waiting?: { reason?: string; message?: string } };
      lastState?: { terminated?: { message?: string; exitCode?: number } };
    }[];
  };
}

export function toPodName(id: string): string {
  return `sluice-${createHash("sha256").update(id).digest("hex").slice(0, 24)}`;
}

export function toRunnerName(hash: string): string {
  return `sluice-runner-${hash.slice(0, 16)}`;
}

/** The runner's file, for the pods of this version. */
export function toConfigMap(name: string, content: string): object {
  return {
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { name, labels: { "app.kubernetes.io/managed-by": "sluice" } },
    immutable: true,
    data: { "runner.cjs": content },
  };
}

/** Process 1 starts the runner again after each of its ends. Agents do not need it. */
const LOOP = `mkdir -p ${ROOT}/home; command -v node >/dev/null || { echo "sluice: the image has no node" | tee /dev/termination-log; exit 1; }; while :; do node ${PROGRAM} listen ${ROOT}/runner ${RUNNER_PORT}; sleep 0.2; done`;

/** One pod per sandbox: no account of the cluster, no capability, no other user than its own. */
export function toPod(
  { id, session, limits = {} }: SandboxSpec,
  options: { image: string; runner: string; runtimeClass?: string | undefined },
): object {
  const { memoryBytes, cpus, diskBytes } = limits;
  const resources = {
    ...(memoryBytes === undefined ? {} : { memory: String(memoryBytes) }),
    ...(cpus === undefined ? {} : { cpu: String(cpus) }),
    ...(diskBytes === undefined ? {} : { "ephemeral-storage": String(diskBytes) }),
  };
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      name: toPodName(id),
      labels: { "app.kubernetes.io/managed-by": "sluice", "app.kubernetes.io/name": "sluice-sandbox" },
      annotations: { "sluice/sandbox": id, ...(session === undefined ? {} : { "sluice/session": session }) },
    },
    spec: {
      automountServiceAccountToken: false,
      enableServiceLinks: false,
      restartPolicy: "Always",
      terminationGracePeriodSeconds: 1,
      ...(options.runtimeClass ? { runtimeClassName: options.runtimeClass } : {}),
      securityContext: {
        runAsNonRoot: true,
        runAsUser: USER,
        runAsGroup: USER,
        fsGroup: USER,
        seccompProfile: { type: "RuntimeDefault" },
      },
      containers: [
        {
          name: "sandbox",
          image: options.image,
          imagePullPolicy: "IfNotPresent",
          command: ["/bin/sh", "-c", LOOP],
          workingDir: ROOT,
          env: [{ name: "HOME", value: `${ROOT}/home` }],
          securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ["ALL"] } },
          volumeMounts: [
            { name: "sluice", mountPath: ROOT },
            { name: "runner", mountPath: "/opt/sluice", readOnly: true },
          ],
          ...(Object.keys(resources).length === 0 ? {} : { resources: { limits: resources } }),
        },
      ],
      volumes: [
        { name: "sluice", emptyDir: {} },
        { name: "runner", configMap: { name: options.runner } },
      ],
    },
  };
}

/** Why a pod does not come up; undefined while it may. */
export function hindranceOf({ status = {} }: Pod): string | undefined {
  const [container] = status.containerStatuses ?? [];
  const waiting = container?.state?.waiting;
  const last = container?.lastState?.terminated?.message?.trim();
  if (waiting?.reason === "CrashLoopBackOff") return last || waiting.message || waiting.reason;
  if (waiting?.reason && /Image|Invalid|CreateContainer/.test(waiting.reason))
    return `${waiting.reason}: ${waiting.message ?? ""}`;
  return undefined;
}
