import type { ListedSandbox } from "../port.ts";
import { RemoteRecords } from "../remote/provider.ts";
import type { SandboxFacts } from "../runner/sandboxes.ts";

/** A sandbox on a vendor's machine. The file is for this server's user alone: it has the token. */
export interface CloudRecord extends ListedSandbox {
  readonly provider: string;
  readonly account?: string;
  /** The vendor's id of the machine. */
  readonly machine?: string;
  readonly token?: string;
  /** Whether a client paused it: nothing but a client's resume wakes it then. */
  readonly isPaused?: boolean;
  readonly facts?: SandboxFacts;
}

/** Records whose known fields stay when others are kept. */
export class CloudRecords extends RemoteRecords {
  override async keep(record: CloudRecord): Promise<void> {
    await super.keep({ ...(await this.find(record.id)), ...record });
  }

  async find(id: string): Promise<CloudRecord | undefined> {
    return (await this.list()).find((record) => record.id === id) as CloudRecord | undefined;
  }
}
