export interface DockerEngine {
  readonly socketPath: string;
  readonly image: string;
  /** Whether containers can have a network other than none. */
  readonly hasNetwork: boolean;
  /** Kills the engine and starts it again; its containers go on, where it is outlived. Missing for an engine that is given. */
  restart?(): Promise<void>;
  stop(): Promise<void>;
}

export const IMAGE: string;
export function whyNot(): string | undefined;
export function start(options?: { outlived?: boolean }): Promise<DockerEngine>;
