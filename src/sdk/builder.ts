import type { SandboxProvider } from "../sandbox/index.ts";
import type { AgentConfig } from "./agent-config.ts";
import { SafeEmitter } from "./emitter.ts";
import { type FileMap, toInnerPath } from "./file-map.ts";
import { initialSettings, type McpServerConfig, type Settings } from "./settings.ts";
import { type StorageConfig, toShelf } from "./storage.ts";

/** The builders: what an instance is told before it runs. */
export abstract class Builder extends SafeEmitter {
  protected readonly settings: Settings = initialSettings();

  /** What comes next goes another way. */
  protected abstract reconnect(): this;

  /**
   * Which agent runs; `scripted`, which needs no model, unless said otherwise.
   *
   * @example
   * new Sluice().withAgent({ type: "codex", model: "gpt-5", reasoningEffort: "high" });
   */
  withAgent(agent: AgentConfig): this {
    this.settings.agent = { ...agent };
    return this;
  }

  /**
   * Where it runs: the name of a provider (`bwrap`, `docker`, `local`), or a provider of your own where the engine is
   * in this process. `bwrap`, or else `docker`, unless said otherwise; `local`, which isolates nothing, only by name.
   *
   * @example
   * new Sluice().withSandbox("docker");
   */
  withSandbox(provider: string | SandboxProvider): this {
    this.settings.sandbox = provider;
    return this.reconnect();
  }

  /**
   * A folder of this machine to work in, instead of an empty one; or, for commands, one below `/home/user/workspace`.
   *
   * @example
   * new Sluice().withWorkingDirectory(process.cwd());
   */
  withWorkingDirectory(directory: string): this {
    this.settings.directory = directory;
    return this;
  }

  /**
   * Environment variables for the agent and for commands. Their values reach no event and no database.
   *
   * @example
   * new Sluice().withSecrets({ DATABASE_URL: "postgres://…" });
   */
  withSecrets(secrets: Record<string, string>): this {
    this.settings.secrets = { ...this.settings.secrets, ...secrets };
    return this;
  }

  /**
   * Added to the agent's own system prompt.
   *
   * @example
   * new Sluice().withSystemPrompt("Answer in French.");
   */
  withSystemPrompt(prompt: string): this {
    this.settings.systemPrompt = prompt;
    return this;
  }

  /**
   * Files for `/home/user/workspace/context/`, uploaded when the sandbox is made.
   *
   * @example
   * new Sluice().withContext({ "spec.json": JSON.stringify({ version: 1 }) });
   */
  withContext(files: FileMap): this {
    for (const path of Object.keys(files)) toInnerPath(path);
    this.settings.context = { ...this.settings.context, ...files };
    return this;
  }

  /**
   * Files for `/home/user/workspace/`, uploaded when the sandbox is made.
   *
   * @example
   * new Sluice().withFiles(readLocalDir("./project", true));
   */
  withFiles(files: FileMap): this {
    for (const path of Object.keys(files)) toInnerPath(path);
    this.settings.files = { ...this.settings.files, ...files };
    return this;
  }

  /**
   * MCP servers that the agent may use, by their name.
   *
   * @example
   * new Sluice().withMcpServers({ docs: { url: "https://example.com/mcp" } });
   */
  withMcpServers(servers: Record<string, McpServerConfig>): this {
    this.settings.mcp = { ...this.settings.mcp, ...servers };
    return this;
  }

  /**
   * Keeps a checkpoint of every run that succeeds: in a folder, in an S3 bucket, or where the engine keeps them. A
   * server keeps them in its own storage, apart from those of other places.
   *
   * @example
   * new Sluice().withStorage("./checkpoints");
   * new Sluice().withStorage({ s3: { bucket: "my-checkpoints", prefix: "team-a" } });
   */
  withStorage(storage?: StorageConfig): this {
    this.settings.shelf = toShelf(storage);
    return this.reconnect();
  }

  /**
   * Runs on a server (`sluice serve`) instead of in this process.
   *
   * @example
   * new Sluice().withServer("http://127.0.0.1:7411", process.env.SLUICE_TOKEN);
   */
  withServer(url: string, token?: string): this {
    this.settings.server = { url, token };
    return this.reconnect();
  }

  /**
   * The folder in which an engine of this process keeps its sessions; the one that the command line uses, unless
   * said otherwise.
   *
   * @example
   * new Sluice().withData("./.sluice");
   */
  withData(folder: string): this {
    this.settings.data = folder;
    return this.reconnect();
  }
}
