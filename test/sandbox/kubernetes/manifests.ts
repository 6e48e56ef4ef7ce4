import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parseAllDocuments } from "yaml";
import { ROOT } from "../../../scripts/source-graph.mjs";
import { KubeApi } from "../../../src/sandbox/kubernetes/api.ts";
import { readKubeConfig } from "../../../src/sandbox/kubernetes/config.ts";

export interface Manifest {
  apiVersion: string;
  kind: string;
  metadata: { name: string };
}

const FOLDER = join(ROOT, "deploy/kubernetes");

/** The objects of `deploy/kubernetes/`. */
export function readManifests(name?: string): Manifest[] {
  const files = name === undefined ? readdirSync(FOLDER).filter((file) => file.endsWith(".yaml")) : [name];
  return files.flatMap((file) =>
    parseAllDocuments(readFileSync(join(FOLDER, file), "utf8")).map(
      (document) => document.toJS() as Manifest,
    ),
  );
}

export async function openApi(env: Record<string, string>): Promise<KubeApi> {
  return new KubeApi(await readKubeConfig(env));
}

/** Creates an object. The lab is older than the budgets of today. */
export async function apply(
  api: KubeApi,
  manifest: Manifest,
  options: { dryRun?: boolean } = {},
): Promise<void> {
  const isBudget = manifest.kind === "PodDisruptionBudget";
  const apiVersion = isBudget ? "policy/v1beta1" : manifest.apiVersion;
  const group = apiVersion === "v1" ? "/api/v1" : `/apis/${apiVersion}`;
  const plural = manifest.kind.toLowerCase().replace(/y$/, "ie");
  const path = `${group}/namespaces/${api.config.namespace}/${plural}s${options.dryRun ? "?dryRun=All" : ""}`;
  await api.call("POST", path, { ...manifest, apiVersion });
}
