package groupd;

import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs the main methods of Kafka's command line tools one after the other in one JVM: a start costs seconds, a run
 * in a warm JVM tenths.
 *
 * <p>A command is a line of base64 fields separated by commas: what the tool finds on its standard input, its main
 * class, its arguments. The answer is a line of JSON: exit (the code), out and err (what it wrote).
 */
public final class Tools {
    private static final Redirected OUT = new Redirected();
    private static final Redirected ERR = new Redirected();
    private static Integer exitCode;

    private Tools() {}

    /** Thrown where a tool would have ended its JVM; an Error, so that `catch (Exception)` lets it pass. */
    private static final class Ended extends Error {
        private static final long serialVersionUID = 1L;

        Ended() {
            super("the tool has ended", null, false, false);
        }
    }

    /** Scala's Console and log4j remember the stream they first saw: that one must stay and its target change. */
    private static final class Redirected extends OutputStream {
        private ByteArrayOutputStream target = new ByteArrayOutputStream();

        @Override
        public synchronized void write(int octet) {
            target.write(octet);
        }

        @Override
        public synchronized void write(byte[] octets, int offset, int length) {
            target.write(octets, offset, length);
        }

        synchronized String taken() {
            String text = target.toString(StandardCharsets.UTF_8);
            target = new ByteArrayOutputStream();
            return text;
        }
    }

    public static void main(String[] arguments) throws IOException {
        PrintStream answers = System.out;
        InputStream commands = System.in;
        System.setOut(new PrintStream(OUT, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(ERR, true, StandardCharsets.UTF_8));
        Exit.setExitProcedure(Tools::ended);
        Exit.setHaltProcedure(Tools::ended);
        BufferedReader lines = new BufferedReader(new InputStreamReader(commands, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            int code = run(line.split(",", -1));
            String out = Member.quote(OUT.taken());
            answers.println("{\"exit\":" + code + ",\"out\":" + out + ",\"err\":" + Member.quote(ERR.taken()) + "}");
            answers.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private static int run(String[] fields) {
        exitCode = null;
        System.setIn(new ByteArrayInputStream(Base64.getDecoder().decode(fields[0])));
        String[] arguments = new String[fields.length - 2];
        for (int i = 2; i < fields.length; i++) {
            arguments[i - 2] = decoded(fields[i]);
        }
        try {
            Class<?> tool = Class.forName(decoded(fields[1]));
            tool.getMethod("main", String[].class).invoke(null, (Object) arguments);
        } catch (InvocationTargetException error) {
            if (!(error.getCause() instanceof Ended)) {
                error.getCause().printStackTrace();
                return 1;
            }
        } catch (ReflectiveOperationException error) {
            throw new IllegalArgumentException(error);
        }
        return exitCode == null ? 0 : exitCode;
    }

    /** The first code counts: what a tool does after it should have ended is its `catch (Throwable)`. */
    private static void ended(int code, String message) {
        if (exitCode == null) {
            exitCode = code;
        }
        throw new Ended();
    }

    private static String decoded(String field) {
        return new String(Base64.getDecoder().decode(field), StandardCharsets.UTF_8);
    }
}
