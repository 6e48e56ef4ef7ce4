import { execFileSync } from "node:child_process";
import { copyFileSync, cpSync, existsSync, mkdirSync, mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join, resolve } from "node:path";

/** The script that starts a real Kubernetes node, beside the project. */
const LAB = resolve(import.meta.dirname, "../../../../shared/tools/k8s-lab/lab");
const OWN = process.env["SLUICE_TEST_KUBECONFIG"];
const canRunLab = existsSync(LAB) && process.getuid?.() === 0 && process.platform === "linux";

/** Why there is no cluster here. */
export const NO_CLUSTER =
  OWN !== undefined || canRunLab
    ? undefined
    : "neither SLUICE_TEST_KUBECONFIG is set, nor is ../shared/tools/k8s-lab there for root";

export interface Cluster {
  /** The settings of the provider. */
  readonly env: Record<string, string>;
  /** Kills a part, by default the API server, and starts it again. */
  restart?(part?: "apiserver" | "kubelet"): Promise<void>;
  down(): void;
}

/** The cluster of SLUICE_TEST_KUBECONFIG with the image of SLUICE_K8S_IMAGE, or the lab with an image made of this host. */
export function openCluster(): Cluster {
  if (OWN !== undefined) return { env: { KUBECONFIG: OWN }, down: () => {} };
  const folder = join(mkdtempSync(join(tmpdir(), "sluice-k8s-")), "lab");
  const lab = (...args: string[]): string =>
    execFileSync("bash", [LAB, args[0] ?? "", folder, ...args.slice(1)], {
      encoding: "utf8",
      stdio: ["ignore", "pipe", "inherit"],
    });
  const down = (): void => {
    lab("down");
    rmSync(dirname(folder), { recursive: true, force: true });
  };
  try {
    lab("up");
    const tar = makeImage(dirname(folder));
    lab("image", tar, IMAGE);
  } catch (error) {
    down();
    throw error;
  }
  const restart: Cluster["restart"] = async (part = "apiserver") => {
    lab("kill", part);
    lab("start", part);
  };
  return { env: { KUBECONFIG: join(folder, "admin.conf"), SLUICE_K8S_IMAGE: IMAGE }, restart, down };
}

const IMAGE = "lab.local/sluice-agents:1";
const PROGRAMS =
  "sh bash tail cat mkdir mkfifo sleep env ls rm seq tee head stat chmod ln mv cp id setsid nice dd true false echo touch".split(
    " ",
  );

/** A root file system with node, a shell and the programs that the spool needs, with their libraries. */
function makeImage(folder: string): string {
  const root = join(folder, "root");
  for (const name of ["bin", "tmp", "etc", "opt/sluice", "sluice", "dev", "proc", "sys"])
    mkdirSync(join(root, name), { recursive: true });
  const put = (path: string, to: string): void => {
    mkdirSync(dirname(join(root, to)), { recursive: true });
    copyFileSync(realpathSync(path), join(root, to));
  };
  const paths = [process.execPath, ...PROGRAMS.map((name) => join("/usr/bin", name)).filter(existsSync)];
  for (const path of paths) {
    put(path, join("bin", basename(path)));
    const libraries = execFileSync("sh", ["-c", `ldd ${path} 2>/dev/null || true`], { encoding: "utf8" });
    for (const [library] of libraries.matchAll(/\/\S+\.so\S*/g)) put(library, library);
  }
  // The image's PATH has /usr/bin, too.
  cpSync(join(root, "bin"), join(root, "usr/bin"), { recursive: true });
  const tar = join(folder, "image.tar");
  execFileSync("tar", ["-cf", tar, "-C", root, "."]);
  rmSync(root, { recursive: true });
  return tar;
}
