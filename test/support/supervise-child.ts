/** `supervise-child.js ENTRY WORD…`: supervises another program than the server, signals included. */
import { supervise } from '../../src/main/supervisor/supervise.js';

process.exitCode = await supervise(process.argv[2], process.argv.slice(3));
