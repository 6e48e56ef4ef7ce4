/** What the sandboxes of one provider can, for people. `docs/sandboxes.md` has it as a table. */
export interface ProviderCapabilities {
  /** The name in sessions. */
  readonly name: string;
  readonly page: string;
  readonly where: string;
  readonly isolated: boolean;
  /** Which hosts agents may be kept to. `policy`: by host and port; `hosts`: public hosts; `none`: all or nothing. */
  readonly network: "policy" | "hosts" | "none" | "full";
  /** Whether a folder of this machine can be the workspace. */
  readonly directory: boolean;
  readonly image: boolean;
  /** Whether its processes can be stopped and go on later. */
  readonly pause: boolean;
  /** What a machine keeps that was stopped, or has restarted. */
  readonly restart: string;
  readonly limits: string;
  /** Whether agents use secrets that only the egress host knows. */
  readonly lends: boolean;
  readonly proven: string;
}

const HERE = { directory: true, restart: "files" } as const;
const ELSEWHERE = { directory: false, lends: false } as const;
const EMULATOR = "the vendor's own SDK against an emulator of its API";

export const CAPABILITIES: readonly ProviderCapabilities[] = [
  {
    ...HERE,
    name: "bwrap",
    page: "bwrap.md",
    where: "namespaces of this machine",
    isolated: true,
    network: "policy",
    image: false,
    pause: true,
    limits: "memory, processors, processes, disk",
    lends: true,
    proven: "real programs",
  },
  {
    ...HERE,
    name: "docker",
    page: "docker.md",
    where: "a container of this machine",
    isolated: true,
    network: "policy",
    image: true,
    pause: true,
    limits: "memory, processors, processes, disk",
    lends: true,
    proven: "a real engine",
  },
  {
    ...HERE,
    name: "local",
    page: "local.md",
    where: "this machine, as the server's user",
    isolated: false,
    network: "full",
    image: false,
    pause: true,
    limits: "what the user's control groups allow",
    lends: false,
    proven: "real programs",
  },
  {
    ...ELSEWHERE,
    name: "docker, with DOCKER_HOST elsewhere",
    page: "docker.md#an-engine-on-another-machine",
    where: "a container of another machine",
    isolated: true,
    network: "none",
    image: true,
    pause: true,
    restart: "files",
    limits: "memory, processors, processes",
    proven: "a real engine, by TLS and by SSH",
  },
  {
    ...ELSEWHERE,
    name: "ssh://user@host",
    page: "ssh.md",
    where: "another machine, as that account",
    isolated: false,
    network: "full",
    image: false,
    pause: true,
    restart: "files",
    limits: "what the account's control groups allow",
    proven: "a real sshd",
  },
  {
    ...ELSEWHERE,
    name: "kubernetes",
    page: "kubernetes.md",
    where: "a pod",
    isolated: true,
    network: "full",
    image: true,
    pause: true,
    restart: "files, unless the pod is removed",
    limits: "memory, processors, disk",
    proven: "a real API server, kubelet and containerd",
  },
  {
    ...ELSEWHERE,
    name: "e2b",
    page: "e2b.md",
    where: "a machine of E2B",
    isolated: true,
    network: "hosts",
    image: true,
    pause: true,
    restart: "files and processes",
    limits: "those of the template",
    proven: EMULATOR,
  },
  {
    ...ELSEWHERE,
    name: "daytona",
    page: "daytona.md",
    where: "a machine of Daytona",
    isolated: true,
    network: "hosts",
    image: true,
    pause: false,
    restart: "files",
    limits: "those of the snapshot",
    proven: EMULATOR,
  },
  {
    ...ELSEWHERE,
    name: "vercel",
    page: "vercel.md",
    where: "a machine of Vercel",
    isolated: true,
    network: "hosts",
    image: true,
    pause: false,
    restart: "files",
    limits: "those of the plan",
    proven: EMULATOR,
  },
];
